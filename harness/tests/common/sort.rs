//! The sort of digits, kernel by kernel, in every way that a plan can ask for: straight to the buckets or by way of
//! partitions, with a set of buckets for each window or fewer, and with runs that begin at multiples of a power of two.

use super::{BLOCK, OneKernel};
use gpu_core::{Device, DeviceBuf};

/// Bit 31 of a digit or an entry: the point is subtracted.
pub const SIGN_BIT: u32 = 1 << 31;
/// Counters that one block of the prefix sum takes, and its threads.
const SCAN_TILE: usize = 2048;
const SCAN_THREADS: u32 = 256;
/// Digits that one block of the partition kernels takes, and its threads.
pub const TILE: usize = 8192;
const TILE_THREADS: u32 = 512;
/// What stays where nothing is scattered: all ones, as the schedule fills runs up.
const FILLER: u32 = u32::MAX;

/// How digits are sorted.
#[derive(Debug, Clone, Copy)]
pub struct Way {
    /// Scalars.
    pub n: usize,
    /// Windows.
    pub windows: u32,
    /// Sets of buckets that the windows share.
    pub sets: u32,
    /// Buckets of a set.
    pub buckets: u32,
    /// Points of a column of the table.
    pub stride: u32,
    /// Runs begin at multiples of 2 to this power.
    pub rounds: u32,
    /// Buckets of a partition, as a power of two; `None` for no partitions.
    pub partition_bits: Option<u32>,
}

impl Way {
    /// Buckets of all sets, and one for scalars equal to one.
    pub fn total(&self) -> usize {
        (self.sets * self.buckets + 1) as usize
    }

    /// Bucket and entry of a digit of a row, without its sign.
    pub fn place(&self, row: u32, magnitude: u32, index: u32) -> (usize, u32) {
        match row == self.windows {
            true => ((self.sets * self.buckets) as usize, index),
            false => {
                let bucket = row % self.sets * self.buckets + magnitude - 1;
                (bucket as usize, row / self.sets * self.stride + index)
            }
        }
    }

    /// Entries by bucket, of rows of digits: the slow twin.
    pub fn entries_of(&self, digits: &[u32]) -> Vec<Vec<u32>> {
        let mut entries = vec![Vec::new(); self.total()];
        for (row, digits) in digits.chunks(self.n).enumerate() {
            for (index, digit) in digits.iter().enumerate().filter(|(_, digit)| **digit != 0) {
                let (bucket, entry) = self.place(row as u32, digit & !SIGN_BIT, index as u32);
                entries[bucket].push(entry | digit & SIGN_BIT);
            }
        }
        entries
    }

    fn shape(&self) -> [u32; 4] {
        [self.n as u32, self.windows, self.sets, self.buckets]
    }
}

fn buffer(device: &Device, name: &str, len: usize, value: u32) -> DeviceBuf<u32> {
    DeviceBuf::from_slice(device, name, &vec![value; len]).expect("a buffer")
}

fn words(buffer: &DeviceBuf<u32>) -> Vec<u32> {
    buffer.to_vec().expect("words")
}

fn numbers(launch: OneKernel, numbers: &[u32]) -> OneKernel {
    numbers.iter().fold(launch, |launch, number| launch.u32(*number))
}

/// Entries with their buckets, in partitions.
struct Partitions {
    ends: DeviceBuf<u32>,
    keys: DeviceBuf<u32>,
    items: DeviceBuf<u32>,
    count: usize,
    bits: u32,
    tiles: usize,
}

/// Sorts rows of digits, and shows after each kernel that its law holds; `expected` are entries by bucket, in any order.
pub fn assert_sorted(
    device: &Device,
    digits: &DeviceBuf<u32>,
    way: &Way,
    expected: &[Vec<u32>],
    place: &str,
) {
    let place = format!("{place}, {way:?}");
    let total = way.total();
    assert_eq!(expected.len(), total, "{place}");
    let expected_counts: Vec<u32> = expected.iter().map(|run| run.len() as u32).collect();
    let run = 1 << way.rounds;
    let sums = expected_counts.iter().scan(0, |sum, count| {
        *sum += count.next_multiple_of(run);
        Some(*sum)
    });
    let expected_offsets: Vec<u32> = std::iter::once(0).chain(sums).collect();

    let partitions = way.partition_bits.map(|bits| partition(device, digits, way, bits, expected, &place));
    let counts = buffer(device, "counts", total, 0);
    match &partitions {
        None => {
            let launch = OneKernel::new(device, "msm_count_digits").write(&counts).read(digits);
            let launch = numbers(launch, &way.shape()).rows(way.windows + 1);
            launch.run(way.n, BLOCK).expect("msm_count_digits");
        }
        Some(Partitions { ends, keys, count, bits, tiles, .. }) => {
            let launch = OneKernel::new(device, "msm_count_keys").write(&counts).read(keys).read(ends);
            let launch = numbers(launch, &[*count as u32, *bits]);
            launch.run(tiles * TILE_THREADS as usize, TILE_THREADS).expect("msm_count_keys");
        }
    }
    assert_eq!(words(&counts), expected_counts, "{place}: counts");

    let offsets = scan(device, &counts, way.rounds);
    assert_eq!(words(&offsets), expected_offsets, "{place}: offsets");

    let entries = buffer(device, "entries", expected_offsets[total].max(1) as usize, FILLER);
    let name = if partitions.is_some() { "msm_scatter_keys" } else { "msm_scatter_entries" };
    let scatter = OneKernel::new(device, name).write(&entries).write(&counts).read(&offsets);
    match &partitions {
        None => {
            let launch = numbers(scatter.read(digits), &way.shape()).u32(way.stride).rows(way.windows + 1);
            launch.run(way.n, BLOCK).expect(name);
        }
        Some(Partitions { ends, keys, items, count, bits, tiles }) => {
            let launch = numbers(scatter.read(keys).read(items).read(ends), &[*count as u32, *bits]);
            launch.run(tiles * TILE_THREADS as usize, TILE_THREADS).expect(name);
        }
    }
    let left = words(&counts).iter().position(|count| *count != 0);
    assert_eq!(left, None, "{place}: a counter that is not zero again");
    let entries = words(&entries);
    for (bucket, expected) in expected.iter().enumerate() {
        let (begin, end) = (expected_offsets[bucket] as usize, expected_offsets[bucket + 1] as usize);
        let (run, filler) = entries[begin..end].split_at(expected.len());
        let (mut run, mut expected) = (run.to_vec(), expected.clone());
        run.sort_unstable();
        expected.sort_unstable();
        assert_eq!(run, expected, "{place}: bucket {bucket}");
        assert!(filler.iter().all(|entry| *entry == FILLER), "{place}: what fills up bucket {bucket}");
    }
}

/// Prefix sums of counters, each rounded up.
fn scan(device: &Device, counts: &DeviceBuf<u32>, rounds: u32) -> DeviceBuf<u32> {
    let total = counts.len();
    let tiles = total.div_ceil(SCAN_TILE);
    let offsets = buffer(device, "offsets", total + 1, u32::MAX);
    let tile_sums = buffer(device, "tile_sums", tiles + 1, u32::MAX);
    let launch = OneKernel::new(device, "msm_scan_tiles").write(&offsets).write(&tile_sums).read(counts);
    let launch = launch.u32(total as u32).u32(rounds);
    launch.run(tiles * SCAN_THREADS as usize, SCAN_THREADS).expect("msm_scan_tiles");
    let launch = OneKernel::new(device, "msm_scan_sums").write(&tile_sums).u32(tiles as u32);
    launch.run(1, SCAN_THREADS).expect("msm_scan_sums");
    let launch = OneKernel::new(device, "msm_scan_add").write(&offsets).read(&tile_sums).u32(total as u32);
    launch.run(total + 1, SCAN_THREADS).expect("msm_scan_add");
    offsets
}

/// Digits to partitions.
fn partition(
    device: &Device,
    digits: &DeviceBuf<u32>,
    way: &Way,
    bits: u32,
    expected: &[Vec<u32>],
    place: &str,
) -> Partitions {
    let digit_count = way.n * way.windows as usize;
    let count = ((way.buckets >> bits) * way.sets + 1) as usize;
    // The bucket of ones is a partition of its own.
    let partition_of = |bucket: usize| bucket >> bits;
    let mut sizes = vec![0; count + 1];
    for (bucket, run) in expected.iter().enumerate() {
        sizes[partition_of(bucket)] += run.len() as u32;
    }
    let (tiles, rows) = (way.n.div_ceil(TILE), way.windows + 1);

    let ends = buffer(device, "ends", count + 1, 0);
    let launch = OneKernel::new(device, "msm_count_partitions").write(&ends).read(digits);
    let launch = numbers(launch, &way.shape()).u32(bits).rows(rows);
    // Fewer blocks than tiles, so that each takes several.
    let blocks = tiles.div_ceil(2);
    launch.run(blocks * TILE_THREADS as usize, TILE_THREADS).expect("msm_count_partitions");
    assert_eq!(words(&ends), sizes, "{place}: counts of partitions");

    let launch = OneKernel::new(device, "msm_scan_sums").write(&ends).u32(count as u32);
    launch.run(1, SCAN_THREADS).expect("msm_scan_sums");
    let begins = words(&ends);

    let [keys, items] = ["keys", "items"].map(|name| buffer(device, name, digit_count, u32::MAX));
    let launch = OneKernel::new(device, "msm_partition_digits").write(&keys).write(&items).write(&ends);
    let launch = numbers(launch.read(digits), &way.shape()).u32(bits).u32(way.stride).rows(rows);
    launch.run(tiles * TILE_THREADS as usize, TILE_THREADS).expect("msm_partition_digits");
    let after = words(&ends);
    assert_eq!(after[..count], begins[1..], "{place}: where partitions end");
    assert_eq!(after[count], begins[count], "{place}: the number of entries");

    let (found_keys, found_items) = (words(&keys), words(&items));
    for partition in 0..count {
        let range = begins[partition] as usize..begins[partition + 1] as usize;
        let mut found: Vec<_> = range.map(|place| (found_keys[place], found_items[place])).collect();
        let buckets = (0..expected.len()).filter(|bucket| partition_of(*bucket) == partition);
        let mut wanted: Vec<_> =
            buckets.flat_map(|bucket| expected[bucket].iter().map(move |e| (bucket as u32, *e))).collect();
        found.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(found, wanted, "{place}: partition {partition}");
    }
    Partitions { ends, keys, items, count, bits, tiles: digit_count.div_ceil(TILE) }
}
