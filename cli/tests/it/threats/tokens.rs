//! What can be done to a token: nothing.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
use futures_util::{StreamExt as _, stream};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::forge::{CONNECTION, Forge, LOGIN, PLACE, SESSION, TICKET, claims, message, said};
use super::{KEPT, Probe, guarded};
use crate::auth::provider::{self, Provider, now, with_tokens, with_tokens_and};
use crate::auth::{A, B, Guarded, told};
use crate::browser::{self, PAGE, enter};
use crate::support::process::baton;

/// Everything that is wrong with a credential gets the answer of none at all.
async fn none_is_let_in(guarded: &Guarded, tokens: &[String]) {
    let nothing = told(guarded.initialize(None).await).await;
    assert_eq!(nothing.0, StatusCode::UNAUTHORIZED);
    for token in tokens {
        let answer = told(guarded.initialize(Some(token)).await).await;
        assert_eq!(answer, nothing, "{token}");
    }
}

/// The provider's token with something changed.
fn changed(provider: &Provider, change: impl FnOnce(&mut Value)) -> String {
    let mut claims = provider::claims("alice");
    change(&mut claims);
    provider.token("k1", &claims)
}

#[tokio::test]
async fn row_04_a_token_is_good_for_one_thing_and_one_audience() {
    let guarded = guarded().await;
    let forge = Forge::of(&guarded);
    let (alice, nobody) = (Probe::of(&guarded, Some(A)), Probe::of(&guarded, None));
    let try_all = async |kind: &str, claims: &Value| {
        let token = forge.token(kind, claims);
        let cookie = format!("__Host-baton-login={token}");
        [
            alice.connection(&token).await == 200,
            alice.session(&token).await == 200,
            enter(&guarded.url, &token).await.is_ok(),
            browser::open(&guarded.url, &[("cookie", &cookie), PAGE]).await == 200,
            guarded.initialize(Some(&token)).await.status() == 200,
        ]
    };
    let kinds = [
        CONNECTION, SESSION, TICKET, LOGIN, PLACE, "JWT", "at+jwt", "",
    ];
    for (at, kind) in kinds.into_iter().enumerate() {
        // As connection, session token, ticket and login each is taken for what it is; as a bearer none.
        let expected = [0, 1, 2, 3, usize::MAX].map(|place| place == at);
        assert_eq!(
            try_all(kind, &claims("key:alice")).await,
            expected,
            "{kind}"
        );
        for audience in [json!("elsewhere"), json!(["baton"]), json!(null), json!("")] {
            let mut claims = claims("key:alice");
            claims["aud"] = audience;
            assert_eq!(try_all(kind, &claims).await, [false; 5], "{kind} {claims}");
        }
    }
    assert_eq!(
        nobody
            .connection(&forge.token(CONNECTION, &claims("key:alice")))
            .await,
        401
    );

    let provider = Provider::new("k1");
    let guarded = with_tokens(&provider).await;
    let tokens = [
        changed(&provider, |claims| claims["aud"] = json!("other")),
        changed(&provider, |claims| claims["aud"] = json!([])),
        changed(&provider, |claims| claims["aud"] = json!(null)),
        changed(&provider, |claims| {
            drop(claims.as_object_mut().unwrap().remove("aud"))
        }),
    ];
    none_is_let_in(&guarded, &tokens).await;
    guarded.open(&changed(&provider, |_| ())).await;
}

#[tokio::test]
async fn row_06_no_bit_of_a_token_can_be_flipped() {
    let guarded = guarded().await;
    let forge = Forge::of(&guarded);
    let alice = Probe::of(&guarded, Some(A));
    for (name, kind) in [
        ("acp-connection-id", CONNECTION),
        ("acp-session-token", SESSION),
    ] {
        let token = forge.token(kind, &claims("key:alice"));
        assert_eq!(alice.bytes(name, token.as_bytes()).await, Some(200));
        let flips = (0..token.len()).flat_map(|at| (0..8).map(move |bit| (at, bit)));
        let tries = flips.map(|(at, bit)| {
            let mut forged = token.clone().into_bytes();
            forged[at] ^= 1 << bit;
            let alice = &alice;
            async move { (at, bit, alice.bytes(name, &forged).await) }
        });
        let answers: Vec<_> = stream::iter(tries).buffer_unordered(16).collect().await;
        let mut refused = 0;
        for (at, bit, status) in answers {
            // What is no text is no header, either on its way or when it has arrived.
            match status {
                None | Some(400) => {}
                Some(404) => refused += 1,
                other => panic!("bit {bit} of byte {at} of a {kind}: {other:?}"),
            }
        }
        assert!(refused > token.len() * 5, "{refused}");
    }
    // Nor is one of another key a good one, be its name the same.
    let other = Forge::of(&Guarded::start(&KEPT, |_| ()).await);
    let mut header = forge.header(CONNECTION);
    for kid in [other.header("")["kid"].clone(), header["kid"].clone()] {
        header["kid"] = kid;
        let token = other.signed(&header.to_string(), &claims("key:alice").to_string());
        assert_eq!(alice.connection(&token).await, 404);
    }
}

#[tokio::test]
async fn row_07_nobody_names_himself() {
    let guarded = guarded().await;
    let forge = Forge::of(&guarded);
    let alice = guarded.open(A).await;
    let (_, signature) = alice.connection.rsplit_once('.').unwrap();
    let mut claimed = said(&alice.connection);
    claimed["prn"] = json!("key:bob");
    let header = forge.header(CONNECTION).to_string();
    let edited = message(&header, &claimed.to_string());
    let bob = Probe::of(&guarded, Some(B));
    for forged in [
        format!("{edited}.{signature}"),
        format!("{edited}."),
        edited.clone(),
        BASE64URL.encode(claimed.to_string()),
        format!("{}.{signature}", BASE64URL.encode(claimed.to_string())),
        format!("c1.{}.{signature}", BASE64URL.encode("key:bob")),
    ] {
        assert_eq!(bob.connection(&forged).await, 404, "{forged}");
        assert_eq!(bob.session(&forged).await, 404, "{forged}");
    }
    // With a key it would have done.
    let signed = forge.signed(&header, &claimed.to_string());
    assert_eq!(bob.connection(&signed).await, 200);
    // What others put in front of a gateway says nothing, with or without a credential.
    for name in [
        "x-user",
        "x-forwarded-user",
        "x-remote-user",
        "remote-user",
        "from",
    ] {
        let headers = [(name, "key:bob"), ("acp-connection-id", signed.as_str())];
        assert_eq!(Probe::of(&guarded, None).get(&headers).await, 401, "{name}");
        assert_eq!(
            Probe::of(&guarded, Some(A)).get(&headers).await,
            404,
            "{name}"
        );
    }
    // Where nobody is asked who they are, nobody comes from elsewhere.
    let mut open = baton();
    open.args(["serve", "--ephemeral", "--listen", "0.0.0.0:0"]);
    let output = open.output().expect("baton runs");
    assert_eq!(output.status.code(), Some(64));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("--insecure"), "{told}");
}

#[tokio::test]
async fn row_08_the_algorithm_is_the_keys() {
    let guarded = guarded().await;
    let forge = Forge::of(&guarded);
    let alice = Probe::of(&guarded, Some(A));
    let good = forge.token(CONNECTION, &claims("key:alice"));
    assert_eq!(alice.connection(&good).await, 200);
    let (_, signature) = good.rsplit_once('.').unwrap();
    for alg in [
        "none", "None", "nOnE", "NONE", "", "HS384", "HS512", "RS256", "ES256", "EdDSA",
    ] {
        let mut header = forge.header(CONNECTION);
        header["alg"] = json!(alg);
        let (header, claims) = (header.to_string(), said(&good).to_string());
        let message = message(&header, &claims);
        let mut forged = vec![
            format!("{message}."),
            format!("{message}.{signature}"),
            forge.signed(&header, &claims),
        ];
        if let Ok(algorithm @ (Algorithm::HS384 | Algorithm::HS512)) = alg.parse() {
            forged.push(forge.signed_as(algorithm, &header, &claims));
        }
        for forged in forged {
            assert_eq!(alice.connection(&forged).await, 404, "{alg}");
        }
    }

    // The provider's, whose key everybody knows.
    let provider = Provider::new("k1");
    let shared =
        json!({ "kty": "oct", "kid": "k2", "alg": "HS256", "k": BASE64URL.encode([7; 32]) });
    let guarded = with_tokens(&provider).await;
    let set = json!({ "keys": [provider.public, shared] }).to_string();
    std::fs::write(guarded.dir.path().join("jwks.json"), set).unwrap();
    let guarded = guarded.again(&provider::arguments("jwks.json")).await;
    let good = changed(&provider, |_| ());
    let parts: Vec<&str> = good.split('.').collect();
    let with_header = |header: &str, signature: &str| {
        format!("{}.{}.{signature}", BASE64URL.encode(header), parts[1])
    };
    let symmetric = |kid: &str, secret: &[u8]| {
        let mut header = Header::new(Algorithm::HS256);
        header.kid = Some(kid.into());
        let key = EncodingKey::from_secret(secret);
        encode(&header, &provider::claims("alice"), &key).unwrap()
    };
    let x = provider.public["x"].as_str().unwrap();
    let wrong = [
        with_header(r#"{"alg":"none","kid":"k1"}"#, ""),
        with_header(r#"{"alg":"None","kid":"k1"}"#, ""),
        with_header(r#"{"alg":"nOnE","kid":"k1"}"#, parts[2]),
        with_header(r#"{"alg":"ES256","kid":"k1"}"#, parts[2]),
        with_header(r#"{"alg":"RS256","kid":"k1"}"#, parts[2]),
        with_header(r#"{"alg":"HS256","kid":"k1"}"#, parts[2]),
        format!("{}.{}.", parts[0], parts[1]),
        symmetric("k1", x.as_bytes()),
        symmetric("k1", &BASE64URL.decode(x).unwrap()),
        symmetric("k1", provider.public.to_string().as_bytes()),
        symmetric("k2", &[7; 32]),
    ];
    none_is_let_in(&guarded, &wrong).await;
    guarded.open(&good).await;
    // What is not on the list is refused, however good it is.
    let strict = with_tokens_and(&provider, &["--auth-algs", "ES256,RS256"]).await;
    none_is_let_in(&strict, &[good]).await;
    let mut lax = baton();
    lax.args(["serve", "--ephemeral", "--auth-algs", "RS256,HS256"]);
    let output = lax.args(provider::arguments("nowhere.json")).output();
    assert_eq!(output.expect("baton runs").status.code(), Some(64));
}

#[tokio::test]
async fn row_09_what_a_header_says_is_compared_and_never_followed() {
    let attacker = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/jwks.json", attacker.local_addr().unwrap());
    let (guarded, thief) = (guarded().await, Provider::new("k1"));
    let forge = Forge::of(&guarded);
    let alice = Probe::of(&guarded, Some(A));
    let own = forge.header(CONNECTION)["kid"].clone();
    let own = own.as_str().unwrap();
    let long = "k".repeat(400);
    let padded = format!("{own} ");
    let kids = [
        "../../dev/null",
        "/dev/null",
        "' OR 1=1",
        "*",
        "",
        "\0",
        &long,
        &padded,
        &own[1..],
    ];
    let tricks = kids.map(|kid| ("kid", json!(kid)));
    let tricks = tricks.into_iter().chain([
        ("kid", json!(null)),
        ("kid", json!([own])),
        ("jku", json!(url)),
        ("x5u", json!(url)),
        ("jwk", thief.public.clone()),
        ("x5c", json!(["MIIB"])),
        ("crit", json!(["exp"])),
        ("b64", json!(false)),
    ]);
    let token =
        |header: &Value| forge.signed(&header.to_string(), &claims("key:alice").to_string());
    assert_eq!(
        alice.connection(&token(&forge.header(CONNECTION))).await,
        200
    );
    for (name, value) in tricks {
        let mut header = forge.header(CONNECTION);
        header[name] = value;
        assert_eq!(alice.connection(&token(&header)).await, 404, "{header}");
    }

    let provider = Provider::new("k1");
    let guarded = with_tokens(&provider).await;
    let stolen = |change: &dyn Fn(&mut Header)| {
        let mut header = Header::new(Algorithm::EdDSA);
        header.kid = Some("k1".into());
        change(&mut header);
        encode(&header, &provider::claims("alice"), &thief.signing).unwrap()
    };
    let wrong = [
        stolen(&|header| header.jku = Some(url.clone())),
        stolen(&|header| header.x5u = Some(url.clone())),
        stolen(&|header| header.jwk = serde_json::from_value(thief.public.clone()).ok()),
        stolen(&|header| header.kid = Some(url.clone())),
        provider.token("../../dev/null", &provider::claims("alice")),
        provider.token("' OR 1=1", &provider::claims("alice")),
        provider.token("K1", &provider::claims("alice")),
        provider.token(&"k".repeat(5000), &provider::claims("alice")),
        provider.token(&"k".repeat(10_000), &provider::claims("alice")),
    ];
    none_is_let_in(&guarded, &wrong).await;
    guarded
        .open(&provider.token("k1", &provider::claims("alice")))
        .await;
    // Whoever had followed would have been here before it answered.
    let came = futures_util::FutureExt::now_or_never(attacker.accept());
    assert!(came.is_none(), "somebody came: {came:?}");
}

#[tokio::test]
async fn row_10_claims_have_their_types() {
    let guarded = guarded().await;
    let forge = Forge::of(&guarded);
    let alice = Probe::of(&guarded, Some(A));
    let later = (now() + 600).to_string();
    let times = [
        format!("\"{later}\""),
        format!("{later}.0"),
        format!("{later}.5"),
        "\"never\"".into(),
        "\"99999999999\"".into(),
        "\"NaN\"".into(),
        "1e400".into(),
        "1e9".into(),
        "-1".into(),
        "18446744073709551616".into(),
        "true".into(),
        "[1]".into(),
        "{}".into(),
    ];
    for (kind, name) in [(CONNECTION, "connection"), (SESSION, "session")] {
        let status = async |claims: &str| {
            let token = forge.signed(&forge.header(kind).to_string(), claims);
            match kind {
                CONNECTION => alice.connection(&token).await,
                _ => alice.session(&token).await,
            }
        };
        assert_eq!(status(&claims("key:alice").to_string()).await, 200);
        for claim in ["iat", "exp", "nbf"] {
            for value in &times {
                let mut changed = claims("key:alice");
                changed[claim] = json!("here");
                let changed = changed.to_string().replace("\"here\"", value);
                assert_eq!(status(&changed).await, 404, "{name}: {claim} {value}");
            }
        }
        let own = match kind {
            CONNECTION => ["cid", "ver", "cap"],
            _ => ["sid", "scp", "gen"],
        };
        for claim in ["aud", "prn", "iat", "exp"].into_iter().chain(own) {
            let mut changed = claims("key:alice");
            for value in [json!(null), json!({}), json!(-1), json!(["a"])] {
                changed[claim] = value;
                assert_eq!(status(&changed.to_string()).await, 404, "{changed}");
            }
            changed.as_object_mut().unwrap().remove(claim);
            assert_eq!(status(&changed.to_string()).await, 404, "no {claim}");
        }
    }

    let provider = Provider::new("k1");
    let guarded = with_tokens(&provider).await;
    let mut wrong = Vec::new();
    for claim in ["exp", "nbf", "iat"] {
        for value in [
            json!("never"),
            json!("99999999999"),
            json!(later),
            json!(-1),
            json!(1e300),
            json!([]),
        ] {
            wrong.push(changed(&provider, |claims| claims[claim] = value));
        }
    }
    for claim in ["exp", "iss", "sub"] {
        wrong.push(changed(&provider, |claims| {
            drop(claims.as_object_mut().unwrap().remove(claim))
        }));
        wrong.push(changed(&provider, |claims| claims[claim] = json!(null)));
    }
    wrong.push(changed(&provider, |claims| {
        claims["exp"] = json!(now() - 100)
    }));
    wrong.push(changed(&provider, |claims| {
        claims["nbf"] = json!(now() + 3600)
    }));
    wrong.push(changed(&provider, |claims| claims["sub"] = json!(5)));
    none_is_let_in(&guarded, &wrong).await;
    guarded.open(&changed(&provider, |_| ())).await;
}
