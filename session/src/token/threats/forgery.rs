//! Without a key nobody can make a token, nor change one.

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

#[test]
fn row_6_no_bit_can_be_flipped() {
    let ring = ring(Algorithm::HS256);
    for token in kinds(&ring) {
        // The eighth bit makes it something that is not text.
        for (at, bit) in (0..token.len()).flat_map(|at| (0..7).map(move |bit| (at, bit))) {
            let mut forged = token.clone().into_bytes();
            forged[at] ^= 1 << bit;
            let forged = String::from_utf8(forged).unwrap();
            assert!(!any_kind_takes(&ring, &forged), "bit {bit} of byte {at}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn row_6_no_bit_flip_and_no_truncation_of_any_kind_verifies(
        at: Index,
        bit in 0..7u8,
        cut: Index,
    ) {
        for algorithm in ALGORITHMS {
            let ring = ring(algorithm);
            for token in kinds(&ring) {
                let mut forged = token.clone().into_bytes();
                let at = at.index(forged.len());
                forged[at] ^= 1 << bit;
                prop_assert!(!any_kind_takes(&ring, &String::from_utf8(forged).unwrap()));
                let cut = cut.index(token.len());
                prop_assert!(!any_kind_takes(&ring, &token[..cut]));
                prop_assert!(!any_kind_takes(&ring, &token[token.len() - cut..]));
            }
        }
    }

    #[test]
    fn row_29_whatever_is_sent_is_refused_without_a_panic(
        token in "[a-zA-Z0-9_.=-]{0,1100}|.{0,300}",
    ) {
        prop_assert!(!any_kind_takes(&ring(Algorithm::HS256), &token));
    }
}

#[test]
fn row_6_one_kind_does_not_pass_for_another() {
    let ring = ring(Algorithm::HS256);
    // Each is taken by one of them: its own.
    for (kind, token) in kinds(&ring).iter().enumerate() {
        let taken = [
            ring.verify_session(token).is_ok(),
            ring.verify_connection(token).is_ok(),
            ring.verify_list_position(token, "my list").is_ok(),
            ring.verify_ticket(token).is_ok(),
            ring.verify_login(token).is_ok(),
            ring.verify_attempt(token).is_ok(),
        ];
        let mut expected = [false; 6];
        expected[kind] = true;
        assert_eq!(taken, expected, "{token}");
    }
    // Even if its claims would do.
    for kind in ["JWT", "at+jwt", connection::TYPE, "BATON-SESSION+JWT", ""] {
        let mut header = header(&ring);
        header["typ"] = json!(kind);
        let token = signed(&ring, &header.to_string(), &claims().to_string());
        assert!(verdict(&ring, &token).is_err(), "{kind}");
    }
}

#[test]
fn row_7_nobody_names_himself() {
    let ring = ring(Algorithm::HS256);
    let token = signed(&ring, &header(&ring).to_string(), &claims().to_string());
    let (_, signature) = token.rsplit_once('.').unwrap();
    let mut other = claims();
    other["prn"] = json!("admin");
    let message = format!(
        "{}.{}",
        part(&header(&ring).to_string()),
        part(&other.to_string())
    );
    for forged in [
        format!("{message}.{signature}"),
        format!("{message}."),
        message.clone(),
        part(&other.to_string()),
        format!("{}.{}", part(&other.to_string()), signature),
    ] {
        assert!(verdict(&ring, &forged).is_err(), "{forged}");
    }
}
