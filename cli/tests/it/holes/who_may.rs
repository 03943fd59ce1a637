//! Row M3: a token of the right issuer, for the right audience, is not enough.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::auth::provider::{self, Provider, claims, with_tokens, with_tokens_and};
use crate::auth::told;
use crate::browser::{PAGE, bearer, enter, login, open, send, ticket};
use crate::dpop::{Holder, open_with};
use crate::support::cluster::{Redis, address, ready, redis_cli, url, write_keys};
use crate::support::http::{load, new_session, prompt};
use crate::support::process::{Process, baton, free_port};
use crate::support::websocket::initialize;
use crate::support::{Client, Cluster, until};

/// As `provider.token`, with another header.
fn typed(provider: &Provider, typ: Option<&str>, claims: &Value) -> String {
    use jsonwebtoken::{Algorithm, Header, encode};
    let mut header = Header::new(Algorithm::EdDSA);
    header.kid = Some("k1".into());
    header.typ = typ.map(str::to_owned);
    encode(&header, claims, &provider.signing).unwrap()
}

fn with(mut claims: Value, claim: &str, value: Value) -> Value {
    claims[claim] = value;
    claims
}

#[tokio::test]
async fn m3_nobody_without_a_name_is_somebody() {
    let provider = Provider::new("k1");
    let guarded = with_tokens(&provider).await;
    let mut nameless = claims("alice");
    nameless.as_object_mut().unwrap().remove("sub");
    for claims in [claims(""), claims(" "), claims("\t\u{a0}"), nameless] {
        let token = provider.token("k1", &claims);
        let answer = guarded.initialize(Some(&token));
        assert_eq!(answer.await.status(), StatusCode::UNAUTHORIZED, "{claims}");
    }
    guarded.open(&provider.token("k1", &claims("alice"))).await;
}

#[tokio::test]
async fn m3_a_token_for_something_else_is_no_access_token() {
    let provider = Provider::new("k1");
    let [any, strict] = [
        with_tokens(&provider).await,
        with_tokens_and(&provider, &["--auth-typ", "at+jwt"]).await,
    ];
    let alice = claims("alice");
    for (typ, by_default, strictly) in [
        (Some("at+jwt"), 200, 200),
        (Some("application/at+jwt"), 200, 200),
        (Some("AT+JWT"), 200, 200),
        (Some("JWT"), 200, 401),
        (None, 200, 401),
        (Some("logout+jwt"), 401, 401),
        (Some("dpop+jwt"), 401, 401),
        (Some("baton-connection+jwt"), 401, 401),
        (Some(""), 401, 401),
    ] {
        let token = typed(&provider, typ, &alice);
        for (guarded, expected) in [(&any, by_default), (&strict, strictly)] {
            let answer = guarded.initialize(Some(&token)).await;
            assert_eq!(answer.status(), expected, "{typ:?}");
        }
    }
    // What ID tokens have, and how Keycloak tells them apart.
    for (claim, value, expected) in [
        ("at_hash", json!("x"), 401),
        ("c_hash", json!("x"), 401),
        ("typ", json!("ID"), 401),
        ("typ", json!("Refresh"), 401),
        ("typ", json!("Bearer"), 200),
    ] {
        let token = typed(&provider, Some("JWT"), &with(alice.clone(), claim, value));
        let answer = any.initialize(Some(&token)).await;
        assert_eq!(answer.status(), expected, "{claim}");
    }
}

#[tokio::test]
async fn m3_required_claims_are_asked_of_every_token() {
    let provider = Provider::new("k1");
    let required = [
        "--auth-require",
        "groups=engineers",
        "--auth-require",
        "realm_access.roles=user",
    ];
    let guarded = with_tokens_and(&provider, &required).await;
    let user = json!({ "roles": ["user", "other"] });
    let both = with(claims("alice"), "groups", json!(["engineers", "all"]));
    let both = with(both, "realm_access", user.clone());
    let alice = provider.token("k1", &both);
    let caller = guarded.open(&alice).await;
    caller.new_session().await;
    let one = with(claims("bob"), "realm_access", user.clone());
    for claims in [
        claims("bob"),
        one.clone(),
        with(claims("bob"), "groups", json!(["engineers"])),
        with(one.clone(), "groups", json!(["engineer"])),
        with(one.clone(), "groups", json!("engineers and more")),
        with(one, "groups", json!({ "engineers": true })),
    ] {
        let bob = provider.token("k1", &claims);
        let (status, headers, body) = told(guarded.initialize(Some(&bob)).await).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{claims}");
        assert!(!body.contains("engineers"), "{body}");
        let scope = "insufficient_scope";
        assert!(headers.iter().any(|(_, value)| value.contains(scope)));
        let credential = bearer(&bob);
        let headers = [("authorization", credential.as_str())];
        for path in ["/v1/login", "/v1/tickets"] {
            let answer = send(&guarded.url, Method::POST, path, &headers, None).await;
            assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{path}");
        }
    }
    let cookie = login(&guarded.url, &bearer(&alice)).await;
    assert_eq!(open(&guarded.url, &[("cookie", &cookie), PAGE]).await, 200);
}

/// Which agents `GET /v1/agents` shows.
async fn agents(url: &str, headers: &[(&str, &str)]) -> Vec<String> {
    let answer = send(url, Method::GET, "/v1/agents", headers, None).await;
    assert_eq!(answer.status(), StatusCode::OK);
    let answer: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
    let agents = answer["agents"].as_array().unwrap().iter();
    agents
        .map(|agent| agent["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn m3_an_agent_with_a_rule_is_only_for_those_who_meet_it() {
    let provider = Provider::new("k1");
    let dir = TempDir::new().expect("a temporary directory");
    provider.publish(dir.path());
    let jwks = dir.path().join("jwks.json").display().to_string();
    let allowed = ["--allow-agent", "coder=groups=engineers"];
    let arguments = [&provider::arguments(&jwks)[..], &allowed].concat();
    let cluster = Cluster::start_unused(&arguments).await;
    let _coder = cluster.worker_with(7, |command| {
        command.env("BATON_AGENT_NAME", "coder");
    });
    let engineer = with(claims("alice"), "groups", json!(["engineers"]));
    let alice = provider.token("k1", &engineer);
    // The same person, by a credential that says less.
    let less = provider.token("k1", &claims("alice"));
    let bob = provider.token("k1", &claims("bob"));
    let (url, credential) = (cluster.url(), bearer(&alice));
    until("both agents are registered", async || {
        let shown = agents(&url, &[("authorization", &credential)]).await;
        (shown == ["coder", "scripted"]).then_some(())
    })
    .await;
    for token in [&less, &bob] {
        let credential = bearer(token);
        let shown = agents(&url, &[("authorization", &credential)]).await;
        assert_eq!(shown, ["scripted"]);
    }
    let to_coder = format!("{url}/coder");
    let owner = Client::with_key(&to_coder, &alice).await;
    let session = owner.new_session().await;
    owner
        .one_shot(prompt(json!(2), &session, "hello"))
        .await
        .turn(&json!(2))
        .await;

    // As if there were none such.
    let answer = async |path: &str| {
        let credential = bearer(&bob);
        let headers = [("authorization", credential.as_str())];
        let answer = send(&url, Method::POST, path, &headers, Some(initialize())).await;
        answer.text().await.unwrap()
    };
    let (denied, unknown) = (answer("/acp/coder").await, answer("/acp/koder").await);
    assert_eq!(denied.replace("coder", "koder"), unknown);
    assert!(denied.contains("5001"), "{denied}");
    let settled = Client::with_key(&url, &less).await;
    let at_coder = settled.at(&to_coder);
    let refused = at_coder.one_shot(new_session(json!("n"))).await;
    let refused = { refused }.response(&json!("n")).await;
    assert_eq!(refused["error"]["code"], 5001, "{refused}");
    // Sessions of that agent do not exist either, although they are the same person's.
    let listed = json!({ "jsonrpc": "2.0", "id": "list", "method": "session/list", "params": {} });
    let listed = { settled.one_shot(listed).await }
        .response(&json!("list"))
        .await;
    assert_eq!(listed["result"]["sessions"], json!([]), "{listed}");
    for method in [
        "session/load",
        "session/resume",
        "session/prompt",
        "session/fork",
        "session/set_mode",
        "session/close",
    ] {
        let mut message = load(json!(method), &session);
        message["method"] = json!(method);
        message["params"]["prompt"] = json!([{ "type": "text", "text": "hello" }]);
        message["params"]["modeId"] = json!("ask");
        let mut answer = settled.one_shot(message).await;
        let answer = answer.response(&json!(method)).await;
        assert_eq!(answer["error"]["code"], -32002, "{method}: {answer}");
    }
    let message = json!({ "jsonrpc": "2.0", "id": "d", "method": "session/delete", "params": { "sessionId": session } });
    { settled.one_shot(message).await }
        .response(&json!("d"))
        .await;
    let credential = bearer(&less);
    let headers = [("authorization", credential.as_str())];
    let path = format!("/v1/sessions/{session}/export");
    let export = send(&url, Method::GET, &path, &headers, None).await;
    assert_eq!(export.status(), StatusCode::NOT_FOUND);
    // Nor is her other connection of use, which carries that session.
    let theft = [("acp-connection-id", owner.token.as_str()), headers[0]];
    let answer = send(&url, Method::GET, "/acp", &theft, None).await;
    assert_eq!(answer.status(), StatusCode::NOT_FOUND);
    // It is there all along.
    let again = Client::with_key(&url, &alice).await;
    let mut loaded = again.one_shot(load(json!("l"), &session)).await;
    let loaded = loaded.response(&json!("l")).await;
    assert!(loaded["result"].is_object());
}

#[tokio::test]
async fn m3_a_login_and_a_ticket_have_the_rights_of_their_credential() {
    let provider = Provider::new("k1");
    let rules = [
        "--allow-agent",
        "scripted=groups=engineers",
        "--data-dir",
        "data",
    ];
    let guarded = with_tokens_and(&provider, &rules).await;
    let engineer = with(claims("alice"), "groups", json!(["engineers"]));
    let [alice, bob] = [engineer, claims("bob")].map(|claims| provider.token("k1", &claims));
    let mut cookies = Vec::new();
    for (token, shown) in [(&alice, &["scripted"][..]), (&bob, &[])] {
        let credential = bearer(token);
        let cookie = login(&guarded.url, &credential).await;
        let page = [("cookie", cookie.as_str()), PAGE];
        assert_eq!(agents(&guarded.url, &page).await, shown);
        for headers in [&[("authorization", credential.as_str())][..], &page] {
            let ticket = ticket(&guarded.url, headers).await;
            let mut socket = enter(&guarded.url, &ticket).await.expect("let in");
            socket.send(initialize()).await;
            let answer = socket.next().await;
            assert_eq!(
                answer.get("result").is_some(),
                !shown.is_empty(),
                "{answer}"
            );
        }
        cookies.push(cookie);
    }
    // Under other rules nobody knows what they are worth.
    let arguments = [
        &provider::arguments("jwks.json")[..],
        &[
            "--allow-agent",
            "scripted=groups=operators",
            "--data-dir",
            "data",
        ],
    ];
    let guarded = guarded.again(&arguments.concat()).await;
    for cookie in cookies {
        assert_eq!(open(&guarded.url, &[("cookie", &cookie), PAGE]).await, 401);
    }
}

/// Who is far above its rate costs the store nothing.
#[tokio::test]
async fn l_a_proof_is_spent_only_below_the_limit() {
    let redis = Redis::start().await;
    let provider = Provider::new("k1");
    let dir = TempDir::new().expect("a temporary directory");
    provider.publish(dir.path());
    write_keys(&dir.path().join("keys.json"));
    let port = free_port();
    let mut command = baton();
    command.current_dir(dir.path());
    command.args(["gateway", "--store", &redis.store(), "--keys", "keys.json"]);
    command.args(["--listen", &address(port), "--limit-requests", "1/1h"]);
    command.args(provider::arguments("jwks.json"));
    let _gateway = Process::start(dir.path(), "gateway", &mut command);
    ready(port).await;
    let url = url(port);
    let holder = Holder::new(jsonwebtoken::Algorithm::ES256);
    let token = holder.token(&provider);
    let mut refused = 0;
    for _ in 0..40 {
        let proof = holder.proof("POST", &url, &token);
        let status = open_with(&url, &token, &proof).await;
        refused += u32::from(status == StatusCode::TOO_MANY_REQUESTS);
    }
    assert!(refused >= 29, "{refused}");
    let keys = redis_cli(redis.port, &["--scan", "--pattern", "*:u:*"]);
    let spent = keys.lines().filter(|line| !line.is_empty()).count();
    assert!((1..=11).contains(&spent), "{spent} proofs were spent");
}

#[test]
fn m3_what_cannot_be_meant_is_named_at_the_start() {
    let start = |arguments: &[&str]| {
        let mut command = baton();
        command.args(["serve", "--ephemeral", "--listen", "127.0.0.1:0"]);
        let output = command.args(arguments).output().expect("baton runs");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(64), "{arguments:?}: {said}");
        said
    };
    let jwt = [
        "--auth",
        "jwt",
        "--auth-issuer",
        "x",
        "--auth-audience",
        "y",
    ];
    let jwt = [&jwt[..], &["--auth-jwks", "nowhere.json"]].concat();
    for (arguments, expected) in [
        (
            &["--auth-require", "groups=x"][..],
            "--auth-require: it is about tokens",
        ),
        (&["--auth-typ", "at+jwt"], "--auth-typ: it is about tokens"),
        (&["--auth-typ", "jwt"], "at+jwt"),
        (
            &["--allow-agent", "coder=groups=x"],
            "--allow-agent: it needs --auth jwt",
        ),
    ] {
        let said = start(arguments);
        assert!(said.contains(expected), "{said}");
    }
    let said = start(
        &[
            &jwt[..],
            &["--auth-require", "groups", "--allow-agent", "coder=groups"],
        ]
        .concat(),
    );
    for expected in [
        "--auth-require \"groups\"",
        "--allow-agent \"coder=groups\"",
        "NAME=CLAIM=VALUE",
    ] {
        assert!(said.contains(expected), "{said}");
    }
    let said = start(&[
        "--auth",
        "keys",
        "--auth-keys",
        "nowhere",
        "--allow-agent",
        "a=groups=x",
    ]);
    assert!(said.contains("the claim sub"), "{said}");
}
