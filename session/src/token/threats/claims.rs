//! A claim is of its type and a time is in its bounds, or the token is refused.

use std::time::Duration;

use super::*;

#[test]
fn row_10_claims_have_their_types() {
    let ring = ring(Algorithm::HS256);
    let header = header(&ring).to_string();
    let refused = |claims: &str| verdict(&ring, &signed(&ring, &header, claims)).is_err();
    let later = (NOW + 3600).to_string();
    for name in ["iat", "exp", "nbf"] {
        for value in [
            &format!("\"{later}\""),
            "\"never\"",
            &format!("{later}.0"),
            &format!("{later}.5"),
            "1e400",
            "1e9",
            "-1",
            "18446744073709551616",
            "true",
            "[1]",
            "{}",
        ] {
            let mut changed = claims();
            changed[name] = json!("here");
            let text = changed.to_string().replace("\"here\"", value);
            assert!(refused(&text), "{name}: {value}");
        }
    }
    let claim_names = ["aud", "sid", "prn", "scp", "fam", "gen", "iat", "exp"];
    for name in claim_names {
        let mut changed = claims();
        changed.as_object_mut().unwrap().remove(name);
        assert!(refused(&changed.to_string()), "no {name}");
        changed[name] = json!(null);
        assert!(refused(&changed.to_string()), "null as {name}");
        let (key, twice) = (format!("\"{name}\":"), claims());
        let twice = twice
            .to_string()
            .replace(&key, &format!("{key}{},{key}", twice[name]));
        assert!(refused(&twice), "{name} twice");
    }
    for (name, value) in [
        ("aud", json!("elsewhere")),
        ("aud", json!(["baton"])),
        ("sid", json!("../etc/passwd")),
        ("scp", json!("x")),
        ("scp", json!("control")),
        ("gen", json!(-1)),
        ("gen", json!("1")),
        ("gen", json!(4_294_967_296_u64)),
        ("prn", json!(7)),
        ("nbf", json!(NOW + 3599)),
    ] {
        let mut changed = claims();
        changed[name] = value;
        assert!(refused(&changed.to_string()), "{name}");
    }
    assert!(refused("[]") && refused("") && refused("{\"a\":1"));
}

#[test]
fn row_14_clocks_may_differ_by_a_minute() {
    let ring = ring(Algorithm::HS256);
    let at = |issued: u64, expires: u64| {
        let grant = SessionGrant {
            issued,
            expires,
            ..grant("somebody")
        };
        ring.verify_session_at(ring.sign_session(&grant).expose(), NOW)
            .is_ok()
    };
    assert!(at(NOW + 59, NOW + 3600) && at(NOW + 60, NOW + 3600));
    assert!(!at(NOW + 61, NOW + 3600) && !at(u64::MAX, u64::MAX));
    assert!(at(NOW - 3600, NOW + 1));
    assert!(!at(NOW - 3600, NOW) && !at(NOW - 3600, NOW - 1) && !at(0, 0));
    let opened = connection("somebody", NOW);
    let token = ring.sign_connection(&opened, Duration::from_secs(10));
    let takes = |now| ring.verify_connection_at(token.expose(), now);
    let expires = NOW + 10;
    assert_eq!(takes(NOW).unwrap(), ConnectionToken { expires, ..opened });
    assert!(takes(NOW + 9).is_ok() && takes(NOW + 10).is_err());
    assert!(takes(NOW - 60).is_ok() && takes(NOW - 61).is_err());
}
