//! A token has one form, and is small.

use super::*;

#[test]
fn row_28_a_token_has_one_form() {
    for algorithm in ALGORITHMS {
        let ring = ring(algorithm);
        let header = header(&ring).to_string();
        // Lengths of each remainder, so that there are bits at the end of some part that say
        // nothing.
        for padding in ["", "x", "xx"] {
            let mut claims = claims();
            claims["prn"] = json!(format!("somebody{padding}"));
            let token = signed(&ring, &header, &claims.to_string());
            let parts: Vec<&str> = token.split('.').collect();
            for at in 0..3 {
                for variant in variants(parts[at]) {
                    let mut parts: Vec<&str> = parts.clone();
                    parts[at] = &variant;
                    assert!(verdict(&ring, &parts.join(".")).is_err(), "{variant}");
                }
            }
            for around in [" ", "\n", ".", "=", "\u{feff}"] {
                assert!(verdict(&ring, &format!("{token}{around}")).is_err());
                assert!(verdict(&ring, &format!("{around}{token}")).is_err());
            }
            assert!(verdict(&ring, &token).is_ok());
        }
    }
}

/// Other ways to write the same bytes, for decoders that don't look closely.
fn variants(part: &str) -> Vec<String> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let last = part.bytes().last().unwrap();
    let value = DIGITS.iter().position(|digit| *digit == last).unwrap();
    let idle = match part.len() % 4 {
        2 => 16,
        3 => 4,
        _ => 1,
    };
    let others = (1..idle).map(|bits| {
        let digit = char::from(DIGITS[value ^ bits]);
        format!("{}{digit}", &part[..part.len() - 1])
    });
    let standard = part.replace('-', "+").replace('_', "/");
    let written = [format!("{part}="), format!("{part}=="), format!("{part}\n")];
    let standard = [standard].into_iter().filter(|text| text != part);
    others.chain(written).chain(standard).collect()
}

#[test]
fn row_28_what_is_too_long_is_refused_however_good_it_is() {
    let ring = ring(Algorithm::HS256);
    let token = |principal: usize| ring.sign_session(&grant(&"p".repeat(principal)));
    let longest = (1..2000).take_while(|len| token(*len).expose().len() <= MAX_TOKEN_BYTES);
    let longest = longest.last().unwrap();
    assert!(verdict(&ring, token(longest).expose()).is_ok());
    for principal in [longest + 1, 64 << 10, 1 << 20] {
        let refused = verdict(&ring, token(principal).expose());
        assert_eq!(refused, Err(TokenRefusal::TooLong));
    }
}

/// Headers have little room, and every request carries one of each. An asymmetric signature takes
/// 43 characters more than a symmetric one. Principals are `anonymous`, `jwt:` and 32 digits, or
/// `key:` and a name; none is longer than this one.
#[test]
fn tokens_are_small() {
    let name = "p".repeat(MAX_PRINCIPAL);
    for (algorithm, session, connection, cursor) in [
        (Algorithm::HS256, 352, 339, 307),
        (Algorithm::EdDSA, 395, 382, 350),
        (Algorithm::ES256, 395, 382, 350),
    ] {
        let ring = ring(algorithm);
        let opened = ConnectionToken {
            client: ClientCapabilities::from_letters("rwteb"),
            ..self::connection(&name, NOW)
        };
        let opened = ring.sign_connection(&opened, CONNECTION_LIFETIME);
        let granted = grant(&name);
        let sizes = (
            ring.sign_session(&granted).expose().len(),
            opened.expose().len(),
            ring.sign_list_position(&place(), "my list").len(),
        );
        assert_eq!(sizes, (session, connection, cursor), "{algorithm:?}");
        // Five years of renewals, one every half an hour.
        let renewed = SessionGrant {
            generation: 99_999,
            ..granted.clone()
        };
        assert!(ring.sign_session(&renewed).expose().len() <= 400);
        // A view that is shared names two principals: the only one that takes more.
        let shared = SessionGrant {
            owner: Some(name.clone()),
            scope: TokenScope::Observe,
            ..granted
        };
        let shared = ring.sign_session(&shared).expose().len();
        assert_eq!(shared, session + 76, "{algorithm:?}");
    }
}
