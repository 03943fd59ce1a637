//! Where a client may have the agent connect to: `--allow-mcp-url`.

use std::net::IpAddr;
use std::time::Duration;

use tokio::net::lookup_host;
use tokio::time::timeout;
use url::Url;

pub use self::pattern::UrlPattern;
use super::refusal::RefusalReason;

mod pattern;

/// A name server that does not answer must not hold up a session for ever.
const LOOKUP: Duration = Duration::from_secs(5);

/// A pattern must admit the URL, and every address that its name has here and now must lie within
/// what the pattern speaks of. The agent resolves the name again by itself: see
/// docs/reference/mcp.md.
pub(super) async fn check(patterns: &[UrlPattern], written: &str) -> Result<(), RefusalReason> {
    let url = plain(written)?;
    let name = url.host_str().unwrap_or_default().to_owned();
    let fitting: Vec<&UrlPattern> = patterns.iter().filter(|it| it.fits(&url)).collect();
    if fitting.is_empty() {
        return Err(RefusalReason::Unlisted(address(&url)));
    }
    let addresses = addresses(&url).await;
    let addresses = addresses.ok_or_else(|| RefusalReason::Unresolved(name.clone()))?;
    let admitted = |it: &&IpAddr| fitting.iter().any(|pattern| pattern.admits(**it));
    if addresses.iter().all(|it| admitted(&it)) {
        Ok(())
    } else if fitting.iter().all(|it| it.is_network()) {
        Err(RefusalReason::Unlisted(address(&url)))
    } else {
        Err(RefusalReason::Reach(name))
    }
}

/// The URL, if others cannot read it as another. Libraries disagree about backslashes, about what
/// stands before an @, about white space and about 0x7f.1.
pub(in crate::mcp) fn plain(written: &str) -> Result<Url, RefusalReason> {
    let refused = |why| Err(RefusalReason::Url(why));
    let url = Url::parse(written).map_err(|_| RefusalReason::Url("it cannot be read"))?;
    let prefix = match url.scheme() {
        "http" => "http://",
        "https" => "https://",
        _ => return refused("its scheme is another"),
    };
    let odd = |c: char| !c.is_ascii_graphic() || c == '\\';
    let Some(rest) = written
        .strip_prefix(prefix)
        .filter(|rest| !rest.contains(odd))
    else {
        return refused("no white space, backslashes, or letters beyond ASCII");
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return refused("credentials belong into headers, not before an @");
    }
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|c| c.is_ascii_digit()) => host,
        _ => authority,
    };
    match url.host_str() {
        Some(read) if read.eq_ignore_ascii_case(host) => Ok(url),
        _ => refused("the host as a name, as 192.0.2.1 or as [2001:db8::1]"),
    }
}

/// As it may be shown: paths and queries may hold credentials.
fn address(url: &Url) -> String {
    url.origin().ascii_serialization()
}

async fn addresses(url: &Url) -> Option<Vec<IpAddr>> {
    if let Some(address) = pattern::literal(url) {
        return Some(vec![address]);
    }
    let found = timeout(LOOKUP, lookup_host((url.host_str()?, 0)))
        .await
        .ok()?
        .ok()?;
    let found: Vec<IpAddr> = found.map(|address| address.ip()).collect();
    (!found.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn outcome(patterns: &[&str], url: &str) -> Result<(), RefusalReason> {
        let patterns: Vec<UrlPattern> = patterns.iter().map(|it| it.parse().unwrap()).collect();
        check(&patterns, url).await
    }

    #[tokio::test]
    async fn without_more_only_public_hosts_are_reached_and_only_by_https() {
        for url in [
            "https://1.1.1.1/mcp",
            "https://1.1.1.1:443/mcp?key=x",
            "HTTPS://1.1.1.1",
            "https://[2606:4700:4700::1111]/",
        ] {
            // The scheme has to be written in small letters, as everything reads it then.
            let expected = url.starts_with("https");
            let outcome = outcome(&["https://*"], url).await;
            assert_eq!(outcome.is_ok(), expected, "{url}: {outcome:?}");
        }
        for (url, expected) in [
            ("http://1.1.1.1/", "--allow-mcp-url"),
            ("https://1.1.1.1:8443/", "--allow-mcp-url"),
            ("https://10.0.0.1/", "not public"),
            ("https://127.0.0.1/", "not public"),
            ("https://localhost/", "not public"),
            ("https://LOCALHOST/", "not public"),
            ("https://169.254.169.254/latest/meta-data", "not public"),
            ("https://[::1]/", "not public"),
            ("https://[::ffff:7f00:1]/", "not public"),
            ("https://[::ffff:169.254.169.254]/", "plainly written"),
            ("https://[fd00:ec2::254]/", "not public"),
            ("https://[64:ff9b::a9fe:a9fe]/", "not public"),
            ("https://[fe80::1%25eth0]/", "plainly written"),
            ("https://0.0.0.0/", "not public"),
            ("https://127.1/", "plainly written"),
            ("https://0x7f.1/", "plainly written"),
            ("https://0177.0.0.1/", "plainly written"),
            ("https://2130706433/", "plainly written"),
            ("https://127.0.0.1./", "plainly written"),
            ("https://1.1.1.1@127.0.0.1/", "before an @"),
            ("https://user:secret@1.1.1.1/", "before an @"),
            ("https://1.1.1.1\\@127.0.0.1/", "plainly written"),
            ("https:\\\\127.0.0.1/", "plainly written"),
            ("https:/1.1.1.1/", "plainly written"),
            ("https:1.1.1.1", "plainly written"),
            ("https://\t127.0.0.1/", "plainly written"),
            (" https://1.1.1.1/", "plainly written"),
            ("https://1.1.1.1/\n", "plainly written"),
            ("https://１.1.1.1/", "plainly written"),
            ("https://loc%61lhost/", "plainly written"),
            ("https://", "plainly written"),
            ("//1.1.1.1/", "plainly written"),
            ("file:///etc/passwd", "plainly written"),
            ("ftp://1.1.1.1/", "plainly written"),
            ("gopher://127.0.0.1:6379/_x", "plainly written"),
            // Too long for any name server to be asked.
            (
                &format!("https://{}/", "a".repeat(64)),
                "cannot be resolved",
            ),
        ] {
            let refused = outcome(&["https://*"], url).await.expect_err(url);
            let said = refused.to_string();
            assert!(said.contains(expected), "{url}: {said}");
            assert!(
                !said.contains("secret") && !said.contains("meta-data"),
                "{said}"
            );
        }
    }

    #[tokio::test]
    async fn what_is_named_may_be_private_and_what_is_listed_may_be_anything() {
        for (patterns, url) in [
            (&["http://localhost:*"][..], "http://localhost:3000/mcp"),
            (&["http://127.0.0.1:3000"], "http://127.0.0.1:3000/mcp"),
            (&["http://127.0.0.0/8"], "http://localhost:3000/mcp"),
            (
                &["http://127.0.0.0/8", "http://[::1]/128"],
                "http://localhost/",
            ),
            (&["10.0.0.0/8"], "https://10.1.2.3/"),
            (&["https://*", "10.0.0.0/8"], "https://10.1.2.3/"),
            (&["http://169.254.169.254"], "http://169.254.169.254/"),
            (&["http://[::1]:3000"], "http://[::1]:3000/"),
            (&["10.0.0.0/8"], "https://[::ffff:a01:203]/"),
        ] {
            outcome(patterns, url).await.expect(url);
        }
        for (patterns, url) in [
            (&[][..], "https://1.1.1.1/"),
            (&["*.localhost"], "https://a.localhost/"),
            (&["http://127.0.0.1:3000"], "http://127.0.0.1:3001/"),
            (&["http://127.0.0.1"], "http://127.0.0.1:3000/"),
            (&["http://127.0.0.1:3000"], "https://127.0.0.1:3000/"),
            (&["http://127.0.0.1:3000"], "http://localhost:3000/"),
            (&["10.0.0.0/8"], "https://11.1.2.3/"),
            (&["10.0.0.0/8"], "http://10.1.2.3/"),
            (&["http://localhost"], "http://169.254.169.254/"),
            (&["https://*", "10.0.0.0/8"], "https://192.168.0.1/"),
        ] {
            outcome(patterns, url).await.expect_err(url);
        }
    }
}
