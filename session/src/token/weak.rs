//! Keys that anybody could guess. A gateway that signs with one of them lets everybody in, so it
//! does not start.

/// Defaults, samples and placeholders of other projects and tutorials. No random secret has one in
/// it.
const WORDS: &[&str] = &[
    "default-insecure-seed",
    "secret-api-key",
    "changeme",
    "change-me",
    "change_me",
    "change-this",
    "your-256-bit-secret",
    "your-secret",
    "your_secret",
    "a-string-secret",
    "secret-key",
    "secret_key",
    "secretkey",
    "supersecret",
    "super-secret",
    "my-secret",
    "mysecret",
    "insecure",
    "password",
    "0123456789",
    "abcdefghij",
];

/// From the standards' examples.
const TEXTBOOK: &[&str] = &[
    // RFC 7515 A.1, also RFC 7517 A.3
    "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow",
    // RFC 7520 3.5
    "hJtXIZ2uSN5kbQfbtTNWbpdmhkV8FJG-Onbc6mxCcYg",
    // RFC 8037 A.1
    "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A",
    // RFC 7515 A.3
    "jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI",
    // RFC 7517 A.2
    "870MB6gfuTJ4HtUnUvYMyJpr5eUZNP4Bk43bVdj3eAE",
];

/// Of 32 random bytes about 30 differ, of 32 random hex digits 14: fewer than this never happens.
const DISTINCT_BYTES: usize = 8;

/// Returns the weakness of a secret or private key, given as bytes and as it is written in the
/// file.
pub(super) fn weakness(secret: &[u8], written: &str) -> Option<&'static str> {
    let mut bytes = secret.to_vec();
    bytes.sort_unstable();
    bytes.dedup();
    let steady = |pair: &[u8]| pair[1].wrapping_sub(pair[0]) == secret[1].wrapping_sub(secret[0]);
    if bytes.len() < DISTINCT_BYTES || secret.windows(2).all(steady) {
        return Some("not random");
    }
    let text = secret.to_ascii_lowercase();
    let has = |word: &&str| text.windows(word.len()).any(|part| part == word.as_bytes());
    if TEXTBOOK.contains(&written) || WORDS.iter().any(has) {
        return Some("well known: it is in somebody's documentation");
    }
    None
}
