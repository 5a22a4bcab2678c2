//! A file of vectors: its header, its cases, and the count of those that were run.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

/// Who wrote a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Generator {
    name: String,
    version: u32,
}

/// What a flag means.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    meaning: String,
    effect: String,
}

/// A file, by the types of its inputs and outputs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File<I, O> {
    schema_version: u32,
    algorithm: String,
    generator: Generator,
    seed: String,
    provenance: String,
    notes: BTreeMap<String, Note>,
    test_count: usize,
    #[serde(default)]
    points: serde_json::Value,
    #[serde(default)]
    circuits: serde_json::Value,
    /// The cases.
    pub tests: Vec<Test<I, O>>,
}

/// Whether an input is to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is.
    Valid,
    /// It is to be refused.
    Invalid,
}

/// A case.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Test<I, O> {
    /// From 1, in the order of the file.
    pub id: usize,
    /// What it is, in words.
    pub comment: String,
    /// What makes it hard.
    pub flags: Vec<String>,
    /// The arguments.
    pub input: I,
    /// Whether they are to be taken.
    pub result: Verdict,
    output: Option<O>,
    error: Option<String>,
    index: Option<usize>,
}

impl<I, O> Test<I, O> {
    /// Whether the input is to be taken.
    pub fn is_valid(&self) -> bool {
        self.result == Verdict::Valid
    }

    /// What must come of a valid input.
    pub fn output(&self) -> &O {
        self.output.as_ref().unwrap_or_else(|| panic!("case {} has an output", self.id))
    }

    /// Why an invalid input is refused, and which part of it is at fault.
    pub fn refusal(&self) -> (&str, Option<usize>) {
        (self.error.as_deref().unwrap_or_else(|| panic!("case {} has an error", self.id)), self.index)
    }

    /// Whether it has a flag.
    pub fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|other| other == flag)
    }
}

impl<I: DeserializeOwned, O: DeserializeOwned> File<I, O> {
    /// Reads a file's text, and checks its header against its cases.
    pub fn read(text: &str) -> Self {
        let file: Self = serde_json::from_str(text).expect("a file of vectors");
        let name = &file.algorithm;
        assert_eq!(file.schema_version, 1, "{name}");
        assert_eq!((file.generator.name.as_str(), file.generator.version), ("golden/gen/vectors.py", 1));
        for text in [&file.algorithm, &file.seed, &file.provenance] {
            assert!(!text.is_empty(), "{name}: a header without words");
        }
        assert_eq!(file.tests.len(), file.test_count, "{name}: as many cases as the header says");
        let mut used = BTreeSet::new();
        for (position, test) in file.tests.iter().enumerate() {
            assert_eq!(test.id, position + 1, "{name}: ids count up");
            assert!(!test.flags.is_empty() && !test.comment.is_empty(), "{name}: case {} is named", test.id);
            assert_eq!(test.error.is_some(), !test.is_valid(), "{name}: case {}", test.id);
            assert!(test.is_valid() || test.output.is_none(), "{name}: case {}", test.id);
            used.extend(test.flags.iter());
        }
        assert_eq!(used, file.notes.keys().collect(), "{name}: flags, and notes on them");
        let explained = |note: &Note| !note.meaning.is_empty() && !note.effect.is_empty();
        assert!(file.notes.values().all(explained), "{name}: each note says what and why");
        file
    }

    /// The table of points beside the cases.
    pub fn points<T: DeserializeOwned>(&self) -> T {
        serde_json::from_value(self.points.clone()).expect("a table of points")
    }

    /// The table of circuits beside the cases.
    pub fn circuits<T: DeserializeOwned>(&self) -> T {
        serde_json::from_value(self.circuits.clone()).expect("a table of circuits")
    }

    /// Counts the cases that are run in one place.
    pub fn tally(&self, place: &str) -> Tally {
        Tally {
            place: place.into(),
            left: self.tests.iter().map(|test| test.id).collect(),
            count: self.tests.len(),
        }
    }
}

/// Cases that were run.
#[derive(Debug)]
pub struct Tally {
    place: String,
    left: BTreeSet<usize>,
    count: usize,
}

impl Tally {
    /// A case was run.
    pub fn mark<I, O>(&mut self, test: &Test<I, O>) {
        assert!(self.left.remove(&test.id), "case {} was run before, on {}", test.id, self.place);
    }

    /// Fails unless every case was run.
    pub fn finish(self) {
        assert!(self.left.is_empty(), "cases {:?} were not run, on {}", self.left, self.place);
        println!("{} cases on {}", self.count, self.place);
    }
}

/// Words that name a case in a failure.
pub fn place<I, O>(test: &Test<I, O>, device: &str) -> String {
    format!("case {} ({}), on {device}", test.id, test.comment)
}
