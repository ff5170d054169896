//! Traces of block accesses: block numbers, the same in every run.

use flagstone_base::hash::remix;

/// Accesses with this bit belong to a scan: they go through the cache but are not counted.
pub(crate) const SCAN: u32 = 1 << 31;
/// Not an access: the table of the block was replaced, so the block is never read again.
pub(crate) const FORGET: u32 = 1 << 30;

/// Accesses of one kind, in order.
pub(crate) struct Trace {
    pub(crate) what: &'static str,
    pub(crate) blocks: u32,
    pub(crate) accesses: Vec<u32>,
}

struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        remix(self.0)
    }

    fn below(&mut self, end: u32) -> u32 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u32
    }

    fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Draws numbers below a bound, small ones more often: number r with weight 1 / (r + 1) ^ theta.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(end: u32, theta: f64) -> Self {
        let mut sum = 0.0;
        let mut sums: Vec<f64> = (0..end)
            .map(|rank| {
                sum += (f64::from(rank) + 1.0).powf(-theta);
                sum
            })
            .collect();
        sums.iter_mut().for_each(|part| *part /= sum);
        Self(sums)
    }

    fn draw(&self, dice: &mut Dice) -> u32 {
        let part = dice.part();
        self.0.partition_point(|&sum| sum <= part).min(self.0.len() - 1) as u32
    }
}

/// Returns the numbers below `end` in random order.
fn shuffled(end: u32, dice: &mut Dice) -> Vec<u32> {
    let mut order: Vec<u32> = (0..end).collect();
    for at in (1..end).rev() {
        order.swap(at as usize, dice.below(at + 1) as usize);
    }
    order
}

fn uniform(what: &'static str, blocks: u32, count: usize) -> Trace {
    let mut dice = Dice(1);
    Trace { what, blocks, accesses: (0..count).map(|_| dice.below(blocks)).collect() }
}

fn zipf(what: &'static str, blocks: u32, theta: f64, count: usize) -> Trace {
    let mut dice = Dice(2);
    let (ranks, place) = (Zipf::new(blocks, theta), shuffled(blocks, &mut dice));
    let accesses = (0..count).map(|_| place[ranks.draw(&mut dice) as usize]).collect();
    Trace { what, blocks, accesses }
}

/// Zipfian keys whose places do not depend on how hot they are: 16 to a block.
fn zipf_keys(what: &'static str, blocks: u32, count: usize) -> Trace {
    let mut dice = Dice(3);
    let (ranks, place) = (Zipf::new(blocks * 16, 0.99), shuffled(blocks * 16, &mut dice));
    let accesses = (0..count).map(|_| place[ranks.draw(&mut dice) as usize] / 16).collect();
    Trace { what, blocks, accesses }
}

/// After every `every` accesses the blocks of one table of `trace` are rewritten: the cache is told
/// to forget the old blocks, and the new ones have other numbers.
fn rewritten(what: &'static str, trace: &Trace, every: usize) -> Trace {
    const TABLE: u32 = 2_048;
    /// A number is reused after its block was rewritten this many times.
    const TIMES: u32 = 8;
    let mut dice = Dice(6);
    let mut times = vec![0; (trace.blocks / TABLE + 1) as usize];
    let number =
        |block: u32, times: &[u32]| block + times[(block / TABLE) as usize] % TIMES * trace.blocks;
    let mut accesses = Vec::new();
    for part in trace.accesses.chunks(every) {
        accesses.extend(part.iter().map(|&block| number(block, &times)));
        let table = dice.below(trace.blocks / TABLE);
        let old = table * TABLE..(table + 1) * TABLE;
        accesses.extend(old.map(|block| number(block, &times) | FORGET));
        times[table as usize] += 1;
    }
    Trace { what, blocks: trace.blocks * TIMES, accesses }
}

/// After every `every` accesses of `trace` all blocks are read once, in order.
fn with_scans(what: &'static str, trace: &Trace, every: usize) -> Trace {
    let mut accesses = Vec::new();
    for part in trace.accesses.chunks(every) {
        accesses.extend_from_slice(part);
        accesses.extend((0..trace.blocks).map(|block| block | SCAN));
    }
    Trace { what, blocks: trace.blocks, accesses }
}

/// Nine of ten accesses go to a hot set of half a cache, which changes after every `every`
/// accesses.
fn shifting(what: &'static str, blocks: u32, cache: u32, every: usize, count: usize) -> Trace {
    let mut dice = Dice(4);
    let mut first = 0;
    let accesses = (0..count)
        .map(|at| {
            if at % every == 0 {
                first = dice.below(blocks);
            }
            match dice.below(10) {
                0 => dice.below(blocks),
                _ => (first + dice.below(cache / 2)) % blocks,
            }
        })
        .collect();
    Trace { what, blocks, accesses }
}

/// The newest blocks are the hottest: the age of an accessed block is exponentially distributed,
/// half a cache on average, and a block is added every `every` accesses.
fn newest(what: &'static str, blocks: u32, cache: u32, every: usize, count: usize) -> Trace {
    let mut dice = Dice(5);
    let accesses = (0..count)
        .map(|at| {
            let age = -(1.0 - dice.part()).ln() * f64::from(cache) / 2.0;
            let head = blocks + (at / every) as u32;
            (head - (age as u32).min(blocks - 1)) % blocks
        })
        .collect();
    Trace { what, blocks, accesses }
}

/// All blocks in order, again and again.
fn ring(what: &'static str, blocks: u32, count: usize) -> Trace {
    Trace { what, blocks, accesses: (0..count).map(|at| at as u32 % blocks).collect() }
}

/// Returns all traces, of `count` accesses (plus scans), for a cache that holds `cache` blocks.
pub(crate) fn all(cache: u32, count: usize) -> Vec<Trace> {
    let plain = zipf("zipf 0.99, 4x", 4 * cache, 0.99, count);
    let scans = with_scans("the same, scanned", &plain, 500_000);
    let keys = zipf_keys("zipf keys, 4x", 4 * cache, count);
    let rewritten = rewritten("the same, rewritten", &keys, 20_000);
    vec![
        uniform("uniform, 2x", 2 * cache, count),
        uniform("uniform, 4x", 4 * cache, count),
        plain,
        zipf("zipf 0.8, 4x", 4 * cache, 0.8, count),
        scans,
        keys,
        rewritten,
        shifting("shifting, 4x", 4 * cache, cache, 250_000, count),
        shifting("shifting fast", 4 * cache, cache, 50_000, count),
        newest("newest", 16 * cache, cache, 8, count),
        ring("ring, 1.5x", cache + cache / 2, count),
    ]
}
