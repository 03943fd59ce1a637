//! A key that can be guessed is not used.

use super::*;

#[test]
fn row_13_no_weak_key_is_loaded() {
    let taken = |algorithm, field: &str, value: &str| {
        let mut set: Value = serde_json::from_str(&generate(algorithm)).unwrap();
        let key = set["keys"][0].as_object_mut().unwrap();
        key.retain(|name, _| name != "x" && name != "y");
        key.insert(field.into(), json!(value));
        KeyRing::parse(&set.to_string())
            .map(|_| ())
            .map_err(|faults| faults.to_string())
    };
    let secret = |bytes: &[u8]| taken(Algorithm::HS256, "k", &BASE64URL.encode(bytes));
    let random = |len: usize| (0..len).map(|_| rand::random()).collect::<Vec<u8>>();
    assert!(secret(&random(32)).is_ok() && secret(&random(64)).is_ok());
    assert!(secret(random_text_of_hex().as_bytes()).is_ok());
    assert!(
        secret(&random(31))
            .unwrap_err()
            .contains("shorter than 32 bytes")
    );
    for guessed in [
        vec![0; 32],
        vec![7; 64],
        (0..32).collect(),
        (0..32).rev().collect(),
    ] {
        assert!(
            secret(&guessed).unwrap_err().contains("not random"),
            "{guessed:?}"
        );
    }
    assert!(
        secret("ab1!".repeat(16).as_bytes())
            .unwrap_err()
            .contains("not random")
    );
    // As few different bytes as are just enough, and one less.
    assert!(secret("a7!Qz_3x".repeat(4).as_bytes()).is_ok());
    assert!(secret("a7!Qz_33".repeat(4).as_bytes()).is_err());
    for word in [
        "default-insecure-seed",
        "secret-api-key",
        "ChangeMe",
        "your-256-bit-secret",
    ] {
        let padded = format!("{word:-<40}");
        let zeros = [word.as_bytes(), &[0; 32]].concat();
        let front = [&random(16)[..], word.as_bytes(), &random(16)].concat();
        for known in [
            word.repeat(8).into_bytes(),
            padded.into_bytes(),
            zeros,
            front,
        ] {
            let said = secret(&known).unwrap_err();
            assert!(
                said.contains("well known") || said.contains("not random"),
                "{said}"
            );
        }
    }
    let textbook = [
        (
            Algorithm::HS256,
            "k",
            "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CA\
             ow",
        ),
        (
            Algorithm::EdDSA,
            "d",
            "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A",
        ),
        (
            Algorithm::ES256,
            "d",
            "jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI",
        ),
    ];
    for (algorithm, field, value) in textbook {
        assert!(
            taken(algorithm, field, value)
                .unwrap_err()
                .contains("well known")
        );
    }
    for algorithm in [Algorithm::EdDSA, Algorithm::ES256] {
        let constant = BASE64URL.encode([1; 32]);
        assert!(
            taken(algorithm, "d", &constant)
                .unwrap_err()
                .contains("not random")
        );
    }
}

fn random_text_of_hex() -> String {
    (0..32)
        .map(|_| format!("{:02x}", rand::random::<u8>()))
        .collect()
}
