//! Inputs that are nearly good: all that a fuzzer found worth keeping, and some thousands that are
//! nearly like them, the same ones each time.

use std::fs;
use std::path::Path;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// Bytes that mean something to one parser or another.
const TELLING: &[u8] = b"\0\n\r\t \"'()*+,-./09:;<=>?@AZ[\\]_az{|}~\x7f\x80\xff";

/// Feeds the seeds of a target in `fuzz/`, and so many variants of them.
pub fn try_around(target: &str, variants: usize, check: fn(&[u8])) {
    let seeds = seeds(target);
    seeds.iter().for_each(|seed| check(seed));
    let mut rng = StdRng::seed_from_u64(1);
    for _ in 0..variants {
        let seed = any(&mut rng, &seeds);
        let other = any(&mut rng, &seeds);
        check(&variant(&mut rng, seed, other));
    }
}

/// In the order of their names: a run is the same wherever it is made.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fuzz/seeds")
        .join(target);
    let files = fs::read_dir(dir).expect("the seeds are there");
    let mut files: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "there is no seed for {target}");
    let read = files.iter().map(fs::read);
    read.collect::<Result<_, _>>().expect("a seed can be read")
}

/// One to four small changes.
fn variant(rng: &mut StdRng, seed: &[u8], other: &[u8]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..rng.random_range(1..=4) {
        let (from, to) = range(rng, bytes.len());
        match rng.random_range(0..5) {
            0 if from < to => bytes[from] ^= 1 << rng.random_range(0..8),
            1 => bytes.insert(from, TELLING[rng.random_range(0..TELLING.len())]),
            2 => drop(bytes.drain(from..to)),
            3 => drop(bytes.splice(from..from, bytes[from..to].to_vec())),
            _ => {
                let (start, end) = range(rng, other.len());
                drop(bytes.splice(from..to, other[start..end].to_vec()));
            }
        }
    }
    bytes
}

fn range(rng: &mut StdRng, len: usize) -> (usize, usize) {
    let (one, other) = (rng.random_range(0..=len), rng.random_range(0..=len));
    (one.min(other), one.max(other))
}

fn any<'a>(rng: &mut StdRng, seeds: &'a [Vec<u8>]) -> &'a [u8] {
    &seeds[rng.random_range(0..seeds.len())]
}
