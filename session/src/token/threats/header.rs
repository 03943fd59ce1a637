//! The header's values are compared with known ones, and never followed.

use std::net::TcpListener;

use jsonwebtoken::EncodingKey;

use super::*;

#[test]
fn row_8_the_algorithm_is_the_keys() {
    for algorithm in ALGORITHMS {
        let ring = ring(algorithm);
        let good = signed(&ring, &header(&ring).to_string(), &claims().to_string());
        let (_, signature) = good.rsplit_once('.').unwrap();
        for alg in [
            "none", "None", "nOnE", "NONE", "", "HS384", "HS512", "RS256", "PS256", "ES384",
        ] {
            let mut header = header(&ring);
            header["alg"] = json!(alg);
            let message = format!(
                "{}.{}",
                part(&header.to_string()),
                part(&claims().to_string())
            );
            assert!(
                verdict(&ring, &format!("{message}.")).is_err(),
                "{alg}, unsigned"
            );
            assert!(
                verdict(&ring, &format!("{message}.{signature}")).is_err(),
                "{alg}"
            );
            let own = signed(&ring, &header.to_string(), &claims().to_string());
            assert!(verdict(&ring, &own).is_err(), "{alg}, signed");
        }
    }
}

#[test]
fn row_8_a_public_key_is_nobodys_secret() {
    for algorithm in [Algorithm::EdDSA, Algorithm::ES256] {
        let ring = ring(algorithm);
        let public: Value = serde_json::from_str(&ring.public_jwks()).unwrap();
        let public = &public["keys"][0];
        let raw = ring.signing().decoding.try_get_as_bytes().unwrap().to_vec();
        let x = public["x"].as_str().unwrap().as_bytes().to_vec();
        for secret in [
            raw,
            x,
            ring.public_jwks().into_bytes(),
            public.to_string().into_bytes(),
        ] {
            for alg in ["HS256", "EdDSA", "ES256"] {
                let mut header = header(&ring);
                header["alg"] = json!(alg);
                let message = format!(
                    "{}.{}",
                    part(&header.to_string()),
                    part(&claims().to_string())
                );
                let key = EncodingKey::from_secret(&secret);
                let mac = sign(message.as_bytes(), &key, Algorithm::HS256).unwrap();
                assert!(
                    verdict(&ring, &format!("{message}.{mac}")).is_err(),
                    "{alg}"
                );
            }
        }
    }
}

#[test]
fn row_8_a_key_of_another_kind_does_not_sign_for_it() {
    for (one, another) in [
        (Algorithm::EdDSA, Algorithm::ES256),
        (Algorithm::ES256, Algorithm::EdDSA),
    ] {
        let (ours, theirs) = (ring(one), ring(another));
        for alg in [one, another] {
            let mut header = header(&ours);
            header["alg"] = json!(alg);
            let token = signed(&theirs, &header.to_string(), &claims().to_string());
            assert!(verdict(&ours, &token).is_err());
        }
    }
}

#[test]
fn row_9_a_kid_is_compared_and_nothing_else() {
    let ring = ring(Algorithm::HS256);
    let own = ring.signing().id.clone();
    let long = "k".repeat(600);
    let padded = format!("{own} ");
    for kid in [
        "../../dev/null",
        "/dev/null",
        "' OR 1=1",
        "",
        "*",
        "\0",
        &long,
        &own[..3],
        &padded,
    ] {
        let mut header = header(&ring);
        header["kid"] = json!(kid);
        let token = signed(&ring, &header.to_string(), &claims().to_string());
        assert!(verdict(&ring, &token).is_err(), "{kid:?}");
    }
    for kid in [json!(null), json!(0), json!([own])] {
        let mut header = header(&ring);
        header["kid"] = kid;
        let token = signed(&ring, &header.to_string(), &claims().to_string());
        assert!(verdict(&ring, &token).is_err());
    }
    let mut without = header(&ring);
    without.as_object_mut().unwrap().remove("kid");
    assert!(
        verdict(
            &ring,
            &signed(&ring, &without.to_string(), &claims().to_string())
        )
        .is_err()
    );
}

#[test]
fn row_9_a_header_leads_nowhere() {
    let ring = ring(Algorithm::HS256);
    let host = TcpListener::bind("127.0.0.1:0").unwrap();
    host.set_nonblocking(true).unwrap();
    let url = format!("http://{}/jwks.json", host.local_addr().unwrap());
    let own: Value = serde_json::from_str(&generate(Algorithm::EdDSA)).unwrap();
    for (name, value) in [
        ("jku", json!(url)),
        ("x5u", json!(url)),
        ("jwk", own["keys"][0].clone()),
        ("x5c", json!(["MIIB"])),
        ("crit", json!(["exp"])),
        ("crit", json!([])),
        ("b64", json!(false)),
        ("zip", json!("DEF")),
        ("unheard-of", json!(1)),
    ] {
        let mut header = header(&ring);
        header[name] = value;
        let token = signed(&ring, &header.to_string(), &claims().to_string());
        assert!(verdict(&ring, &token).is_err(), "{name}");
    }
    assert!(host.accept().is_err(), "somebody came");
    let twice = header(&ring)
        .to_string()
        .replace("\"kid\"", "\"kid\":\"x\",\"kid\"");
    assert!(verdict(&ring, &signed(&ring, &twice, &claims().to_string())).is_err());
}

#[test]
fn row_8_the_right_secret_with_another_algorithm_is_refused() {
    let ring = ring(Algorithm::HS256);
    for (alg, taken) in [
        (Algorithm::HS256, true),
        (Algorithm::HS384, false),
        (Algorithm::HS512, false),
    ] {
        let mut header = header(&ring);
        header["alg"] = json!(alg);
        let message = format!(
            "{}.{}",
            part(&header.to_string()),
            part(&claims().to_string())
        );
        let mac = sign(message.as_bytes(), &ring.signing().encoding, alg).unwrap();
        let verdict = verdict(&ring, &format!("{message}.{mac}"));
        assert_eq!(verdict.is_ok(), taken, "{alg:?}");
    }
}
