//! Sizes of a proof, from a pure function: what is resident, what each product takes, and what a caller can choose.

use crate::r1cs::{R1cs, stack};
use crate::reduction::Reduction;
use msm_gpu::{
    BaseSet, Batches, DeviceLimits, Goal, GroupKind, MsmConfig, MsmPlan, PlanError, ScalarForm, Table,
};
use ntt_gpu::{NttConfig, NttPlan, TableLayout, Transform};
use serde::Serialize;

/// Bytes of an element of Fr.
pub(crate) const FR_BYTES: u64 = 32;

/// How the assignment gets to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Upload {
    /// From ordinary memory, in one copy that the host waits for.
    Pageable,
    /// From where it lies, which is page-locked for the time of the proof.
    Register,
    /// Through page-locked slots, in chunks: while one goes up, the next is filled.
    Ring {
        /// Slots, at least 1.
        slots: u32,
        /// Values of a slot, at least 1.
        chunk: u64,
    },
}

impl Default for Upload {
    /// Two slots of 2^18 values: a dense proof of 2^20 takes 63 ms with them, 65 with slots of 2^16, and 67 from pageable
    /// memory (H200, 5 runs).
    fn default() -> Self {
        Self::Ring { slots: 2, chunk: 1 << 18 }
    }
}

impl std::fmt::Display for Upload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Pageable => f.write_str("pageable"),
            Self::Register => f.write_str("register"),
            Self::Ring { slots, chunk } => write!(f, "ring:{slots}:{chunk}"),
        }
    }
}

impl std::str::FromStr for Upload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |part: &str| part.parse::<u32>().ok().filter(|number| *number > 0);
        match *text.split(':').collect::<Vec<_>>() {
            ["pageable"] => Ok(Self::Pageable),
            ["register"] => Ok(Self::Register),
            ["ring"] => Ok(Self::default()),
            ["ring", slots, chunk] => match (number(slots), number(chunk)) {
                (Some(slots), Some(chunk)) => Ok(Self::Ring { slots, chunk: chunk.into() }),
                _ => Err(format!("`{text}`: slots and values of a slot are numbers from 1")),
            },
            _ => Err(format!("`{text}` is not `pageable`, `register`, `ring` or `ring:SLOTS:VALUES`")),
        }
    }
}

/// What a caller can choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ProveConfig {
    /// How the assignment gets to the device.
    pub upload: Upload,
    /// How each product is cut into batches. A product with fewer points than batches has one batch a point.
    pub msm: MsmConfig,
    /// Device memory for multiples of the key's bases, all queries together, taken when the prover is made: proofs have
    /// fewer additions then. 0 for none; more than pays is not taken.
    pub table_bytes: u64,
    /// Whether each proof is verified before it is handed out.
    pub verify: bool,
    /// Proofs that run on the device at once, at least 1; others wait. Each takes the memory of one.
    pub jobs_max: usize,
    /// The reduction that the key must have been made for; `None` takes any key with the reduction that it carries.
    pub reduction: Option<Reduction>,
}

impl Default for ProveConfig {
    /// Verified, two at once, under any key.
    fn default() -> Self {
        Self {
            upload: Upload::default(),
            msm: MsmConfig::default(),
            table_bytes: 0,
            verify: true,
            jobs_max: 2,
            reduction: None,
        }
    }
}

/// Sizes of a circuit, and the reduction of the key that it is proved under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct Shape {
    /// Constraints.
    pub constraint_count: u32,
    /// Public inputs, the constant 1 among them.
    pub input_count: u32,
    /// Variables, inputs among them.
    pub variable_count: u32,
    /// Terms of A, B and C, as far as the reduction has them.
    pub term_count: u32,
    /// Different coefficients among them.
    pub coefficient_count: u32,
    /// log2 of the domain's size.
    pub log_n: u32,
    /// How the constraints become polynomials.
    pub reduction: Reduction,
}

impl Shape {
    /// Of a constraint system, under a key of arkworks or bellman.
    pub fn of(r1cs: &R1cs) -> Self {
        Self::new(r1cs, stack(&r1cs.matrices()).coefficients.len())
    }

    /// Of a constraint system, which has checked that its sizes fit.
    pub(crate) fn new(r1cs: &R1cs, coefficient_count: usize) -> Self {
        let terms = r1cs.a().term_count() + r1cs.b().term_count() + r1cs.c().term_count();
        Self {
            constraint_count: r1cs.constraint_count() as u32,
            input_count: r1cs.input_count() as u32,
            variable_count: r1cs.variable_count() as u32,
            term_count: terms as u32,
            coefficient_count: coefficient_count as u32,
            log_n: r1cs.log_n(),
            reduction: Reduction::Libsnark,
        }
    }

    /// Size of the domain.
    pub fn domain_len(&self) -> u64 {
        1 << self.log_n
    }

    /// Whether the domain has a place for each constraint and each input, and is as small as that allows. snarkjs takes two
    /// values where one would do.
    pub(crate) fn fits_domain(&self) -> bool {
        let rows = u64::from(self.constraint_count) + u64::from(self.input_count);
        let least = rows.next_power_of_two().ilog2();
        self.log_n == least || (self.reduction == Reduction::Snarkjs && self.log_n == 1 && least == 0)
    }

    /// Rows of all matrices.
    pub(crate) fn row_count(&self) -> u64 {
        u64::from(self.reduction.matrix_count()) * u64::from(self.constraint_count)
    }

    /// Points of a product.
    pub fn base_count(&self, product: Product) -> u64 {
        match product {
            Product::H => self.reduction.h_count(self.domain_len()),
            Product::L => u64::from(self.variable_count - self.input_count),
            Product::A | Product::BG1 | Product::BG2 => self.variable_count.into(),
        }
    }

    /// Memory of the bases of all products.
    pub(crate) fn bases_bytes(&self) -> u64 {
        let bytes = |product: Product| self.base_count(product) * product.group().affine_bytes();
        Product::ALL.into_iter().map(bytes).sum()
    }

    /// Device memory that the key and the constraints take, tables of the transforms apart.
    pub fn resident_bytes(&self) -> u64 {
        let indices = self.row_count() + 1 + 2 * u64::from(self.term_count);
        self.bases_bytes() + 4 * indices + FR_BYTES * u64::from(self.coefficient_count)
    }
}

/// One of the five products of a proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Product {
    /// Of the assignment, in G1.
    A,
    /// Of the assignment, in G1.
    BG1,
    /// Of the assignment, in G2.
    BG2,
    /// Of the private variables.
    L,
    /// Of the quotient: its coefficients, or its values on a coset.
    H,
}

impl Product {
    /// In the order in which they are queued: those that need the assignment alone come before the one that needs the
    /// transforms, and the one in G2, whose result takes the host longest, before all.
    pub const ALL: [Self; 5] = [Self::BG2, Self::A, Self::BG1, Self::L, Self::H];

    /// The word in names of buffers, streams and operations.
    pub fn word(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::BG1 => "b_g1",
            Self::BG2 => "b_g2",
            Self::L => "l",
            Self::H => "h",
        }
    }

    /// G1 or G2.
    pub fn group(self) -> GroupKind {
        match self {
            Self::BG2 => GroupKind::G2,
            _ => GroupKind::G1,
        }
    }
}

/// Sizes of a proof.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProofPlan {
    /// The circuit.
    pub shape: Shape,
    /// How the assignment gets to the device.
    pub upload: Upload,
    /// The products that have points, in the order of [`Product::ALL`].
    pub products: Vec<(Product, MsmPlan)>,
}

impl ProofPlan {
    /// Pure: the same inputs give the same plan on every machine.
    ///
    /// # Errors
    /// [`PlanError`], also for what does not fit the device all together.
    pub fn new(shape: &Shape, config: &ProveConfig, limits: &DeviceLimits) -> Result<Self, PlanError> {
        match Self::with_rounds(shape, config, limits, config.msm.pair_rounds) {
            // Each product's rounds fit by themselves.
            Err(PlanError::OutOfMemory { .. }) if config.msm.pair_rounds.is_none() => {
                Self::with_rounds(shape, config, limits, Some(0))
            }
            plan => plan,
        }
    }

    fn with_rounds(
        shape: &Shape,
        config: &ProveConfig,
        limits: &DeviceLimits,
        pair_rounds: Option<u32>,
    ) -> Result<Self, PlanError> {
        let mut products = Vec::new();
        for product in Product::ALL {
            let base_count = shape.base_count(product);
            let batches = match config.msm.batches {
                Batches::Count(count) => {
                    Batches::Count(count.min(u32::try_from(base_count).unwrap_or(u32::MAX)).max(count.min(1)))
                }
                fit @ Batches::FitBytes(_) => fit,
            };
            let msm = MsmConfig { batches, pair_rounds, goal: Goal::BesideOthers, ..config.msm };
            let group = product.group();
            // Memory for tables by memory of the bases.
            let bytes = u128::from(config.table_bytes) * u128::from(base_count * group.affine_bytes());
            let bytes = (bytes / u128::from(shape.bases_bytes().max(1))) as u64;
            let table = match config.table_bytes {
                0 => None,
                _ => Table::within(group, base_count, bytes, msm.window_bits, limits),
            };
            let bases = BaseSet { count: base_count, table, streamed: false };
            let plan = MsmPlan::new(group, ScalarForm::Montgomery, bases, &msm, limits)?;
            if base_count > 0 {
                products.push((product, plan));
            }
        }
        let plan = Self { shape: *shape, upload: config.upload, products };
        let (needed_bytes, free_bytes) = (plan.device_bytes() + plan.multiples_bytes(), limits.free_bytes);
        if needed_bytes > free_bytes {
            return Err(PlanError::OutOfMemory { needed_bytes, free_bytes });
        }
        Ok(plan)
    }

    /// The plan of a product, if it has points.
    pub fn product(&self, product: Product) -> Option<&MsmPlan> {
        self.products.iter().find(|(other, _)| *other == product).map(|(_, plan)| plan)
    }

    /// The transforms' plan for so many polynomials.
    ///
    /// # Panics
    /// Never for a shape: its domain has at most 2^31 values.
    pub(crate) fn ntt(&self, job_count: u64) -> NttPlan {
        NttPlan::new(self.shape.log_n, job_count, &NttConfig::default()).expect("a shape's domain has a plan")
    }

    /// The transforms of a proof.
    ///
    /// # Panics
    /// Never for a shape, as [`ntt`](Self::ntt).
    pub(crate) fn transforms(&self) -> Vec<Transform> {
        self.shape.reduction.transforms(self.shape.log_n).expect("a shape's domain has a coset")
    }

    /// Bytes of the tables of each transform.
    pub(crate) fn table_bytes(&self) -> Vec<u64> {
        let bytes = |transform: &Transform| TableLayout::new(&self.ntt(1), transform).bytes();
        self.transforms().iter().map(bytes).collect()
    }

    /// Device memory of the tables of multiples of the bases, the bases themselves included.
    pub fn multiples_bytes(&self) -> u64 {
        let tables = self.products.iter().filter(|(_, msm)| msm.table().is_some());
        tables.map(|(_, msm)| msm.bases_bytes()).sum()
    }

    /// Device memory of one run, resident memory apart.
    pub fn device_bytes(&self) -> u64 {
        crate::schedule::build(self).bytes_in(gpu_core::Space::Device)
    }
}
