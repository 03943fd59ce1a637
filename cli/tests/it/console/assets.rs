//! How the page and its modules are served.

use reqwest::{Method, Response, StatusCode};

use crate::auth::Guarded;
use crate::support::Served;

async fn get(url: &str, path: &str, headers: &[(&str, &str)]) -> Response {
    ask(Method::GET, url, path, headers).await
}

async fn ask(method: Method, url: &str, path: &str, headers: &[(&str, &str)]) -> Response {
    let url = format!("{}{path}", url.trim_end_matches("/acp"));
    let mut request = reqwest::Client::new().request(method, url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.send().await.expect("the gateway answers")
}

fn header(response: &Response, name: &str) -> String {
    let value = response.headers().get(name);
    let text = value.map(|value| value.to_str().expect("text").to_owned());
    text.unwrap_or_default()
}

/// The paths that the page names.
async fn named(url: &str) -> Vec<String> {
    let page = get(url, "/", &[]).await.text().await.expect("a page");
    let parts = page.split('"').filter(|part| part.starts_with("/console/"));
    parts.map(str::to_owned).collect()
}

#[tokio::test]
async fn the_page_says_what_it_may_do_and_its_modules_are_kept() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    let url = baton.url();
    let page = get(&url, "/", &[]).await;
    assert_eq!(page.status(), StatusCode::OK);
    assert_eq!(header(&page, "content-type"), "text/html; charset=utf-8");
    let policy = header(&page, "content-security-policy");
    for part in [
        "default-src 'none'",
        "script-src 'self';",
        "frame-ancestors 'none'",
    ] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(
        !policy.contains("unsafe") && !policy.contains("http"),
        "{policy}"
    );
    for (name, value) in [
        ("cache-control", "no-cache"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("x-frame-options", "DENY"),
        ("cross-origin-opener-policy", "same-origin"),
    ] {
        assert_eq!(header(&page, name), value, "{name}");
    }
    assert_eq!(header(&page, "set-cookie"), "");
    let body = page.text().await.expect("a page");
    assert!(!body.contains("<script>") && !body.contains(" on") && !body.contains("style="));

    let named = named(&url).await;
    assert!(named.len() >= 3, "{named:?}");
    for path in &named {
        let asset = get(&url, path, &[("accept-encoding", "br, gzip")]).await;
        assert_eq!(asset.status(), StatusCode::OK, "{path}");
        assert_eq!(
            header(&asset, "cache-control"),
            "public, max-age=31536000, immutable"
        );
        assert_eq!(header(&asset, "content-encoding"), "gzip");
        assert_eq!(header(&asset, "vary"), "Accept-Encoding");
        let plain = get(&url, path, &[]).await;
        assert_eq!(header(&plain, "content-encoding"), "");
        let (packed, plain) = (asset.bytes().await.unwrap(), plain.bytes().await.unwrap());
        assert!(packed.len() < plain.len(), "{path}");
    }
}

#[tokio::test]
async fn what_a_browser_has_is_not_sent_again() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    let url = baton.url();
    for path in ["/", "/console/baton-client.js"] {
        let first = get(&url, path, &[]).await;
        let tag = header(&first, "etag");
        assert!(tag.starts_with("W/\""), "{tag}");
        let again = get(&url, path, &[("if-none-match", &tag)]).await;
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
        assert_eq!(header(&again, "etag"), tag);
        assert!(again.bytes().await.unwrap().is_empty());
        let other = get(&url, path, &[("if-none-match", "W/\"0\"")]).await;
        assert_eq!(other.status(), StatusCode::OK);
        let head = ask(Method::HEAD, &url, path, &[]).await;
        assert_eq!(head.status(), StatusCode::OK);
        assert_eq!(header(&head, "etag"), tag);
        let length: usize = header(&head, "content-length").parse().expect("a length");
        assert_eq!(length, first.bytes().await.unwrap().len());
        for method in [Method::POST, Method::PUT, Method::DELETE] {
            let refused = ask(method, &url, path, &[]).await;
            assert_eq!(refused.status(), StatusCode::METHOD_NOT_ALLOWED);
            assert_eq!(header(&refused, "allow"), "GET, HEAD");
        }
    }
}

#[tokio::test]
async fn only_the_files_of_the_table_are_served() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    let url = baton.url();
    let app = named(&url).await;
    let app = app
        .iter()
        .find(|path| path.ends_with("/app.js"))
        .expect("a module");
    let version = app.split('/').nth(2).expect("a version");
    for path in [
        "/console".to_owned(),
        "/console/".into(),
        "/console/app.js".into(),
        "/console/nothing.js".into(),
        format!("/console/{version}"),
        format!("/console/{version}/"),
        format!("/console/{version}/nothing.js"),
        format!("/console/{version}/views"),
        format!("/console/{version}/vendor/preact.LICENSE"),
        format!("/console/{version}/../app.js/../../../Cargo.toml"),
        format!("/console/{version}/..%2f..%2fCargo.toml"),
        format!("/console/{version}/%2e%2e/%2e%2e/etc/passwd"),
        format!("/console/{version}/..\\..\\Cargo.toml"),
        format!("/console/{version}//etc/passwd"),
        "/console/%2e%2e%2f%2e%2e%2fetc/passwd".into(),
        "/console/not-a-version-x/app.js".into(),
        "/index.html".into(),
    ] {
        let response = get(&url, &path, &[]).await;
        assert_eq!(response.status(), StatusCode::NOT_FOUND, "{path}");
    }
    // A page of another version, while gateways are replaced one by one.
    let other = get(&url, "/console/0123456789abcdef/app.js", &[]).await;
    assert_eq!(other.status(), StatusCode::OK);
    assert_eq!(header(&other, "cache-control"), "no-store");
}

#[tokio::test]
async fn the_page_answers_to_the_names_of_the_gateway_and_needs_no_credential() {
    let guarded = Guarded::with_keys().await;
    for path in ["/", "/console/baton-client.js"] {
        assert_eq!(get(&guarded.url, path, &[]).await.status(), StatusCode::OK);
        for wrong in [
            ("host", "evil.example"),
            ("origin", "https://evil.example"),
            ("origin", "null"),
        ] {
            let refused = get(&guarded.url, path, &[wrong]).await;
            assert_eq!(refused.status(), StatusCode::FORBIDDEN, "{wrong:?}");
        }
    }
    // Pages that may use the gateway may import the client from it.
    let origin = ("origin", "http://localhost:3000");
    let imported = get(&guarded.url, "/console/baton-client.js", &[origin]).await;
    assert_eq!(header(&imported, "access-control-allow-origin"), origin.1);
}

#[tokio::test]
async fn a_gateway_without_a_console_has_nothing_there() {
    let baton = Served::start_with(&["--ephemeral", "--console", "off"]).await;
    for path in [
        "/",
        "/console/baton-client.js",
        "/console/0123456789abcdef/app.js",
    ] {
        let response = get(&baton.url(), path, &[]).await;
        assert_eq!(response.status(), StatusCode::NOT_FOUND, "{path}");
    }
    assert!(!baton.process.output().contains("browser"));
    let shown = Served::start_with(&["--ephemeral"]).await;
    let page = shown.url().replace("/acp", "/");
    let output = shown.process.output();
    assert!(
        output.contains(&format!("in a browser:\n\n    {page}\n")),
        "{output}"
    );
}
