//! TLS, and a user with just the permissions that docs/deploy/redis-users.md asks for: one server, a cluster, sentinels.

use std::path::Path;
use std::sync::Arc;

use baton_session::conformance::cases;
use baton_session::conformance::scene::{Scene, SignalProbe, updates};
use baton_session::store::redis::{RedisOptions, RedisStore};
use baton_session::store::{Error, Signal, Store, Topic};
use tempfile::TempDir;

use crate::support::{RedisServer, bounded, free_ports};

const USER: &str = "baton on >p@ss:w0rd ~test:* &test:* -@all +@read +@write +@scripting +@pubsub \
                    +@connection +time +info +role +wait +cluster";
/// As the URL has it.
const LOGIN: &str = "baton:p%40ss%3Aw0rd";

/// A certificate that is its own authority, for servers on this machine.
struct Certificate {
    directory: TempDir,
    pem: Vec<u8>,
}

impl Certificate {
    fn make() -> anyhow::Result<Self> {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let made = rcgen::generate_simple_self_signed(names)?;
        let directory = tempfile::tempdir()?;
        let pem = made.cert.pem();
        std::fs::write(directory.path().join("cert"), &pem)?;
        std::fs::write(
            directory.path().join("key"),
            made.signing_key.serialize_pem(),
        )?;
        Ok(Self {
            directory,
            pem: pem.into_bytes(),
        })
    }

    /// Options of a server, in the order of a configuration file.
    fn options(&self, port: u16) -> Vec<(&'static str, String)> {
        let file = |name: &str| {
            Path::join(self.directory.path(), name)
                .display()
                .to_string()
        };
        vec![
            ("tls-port", port.to_string()),
            ("tls-cert-file", file("cert")),
            ("tls-key-file", file("key")),
            ("tls-ca-cert-file", file("cert")),
            ("tls-auth-clients", "no".into()),
        ]
    }
}

/// A server with a port for TLS, and the user.
async fn start(
    certificate: &Certificate,
    more: &[(&str, &str)],
) -> anyhow::Result<(RedisServer, u16)> {
    for _ in 0..10 {
        let (port, _) = free_ports();
        let mut options = Vec::new();
        for (name, value) in certificate.options(port) {
            options.extend([format!("--{name}"), value]);
        }
        for (name, value) in [("user", USER)].iter().chain(more) {
            options.push(format!("--{name}"));
            options.extend(value.split_whitespace().map(str::to_owned));
        }
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        // Somebody may take the port first.
        if let Ok(server) = RedisServer::start_with(&options).await {
            return Ok((server, port));
        }
    }
    anyhow::bail!("no port for TLS")
}

async fn connect(url: &str, certificate: &Certificate) -> Result<Arc<dyn Store>, Error> {
    let options = RedisOptions {
        ca: Some(certificate.pem.clone()),
        ..RedisOptions::new(url, "test")
    };
    Ok(Arc::new(RedisStore::connect_with(&options).await?))
}

/// Writes and hears of it.
async fn works(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let token = scene.claim().await.token;
    let mut ear = SignalProbe::on(store, &[Topic::Log(scene.log())]).await;
    scene.write(&scene.append(&token, 1, updates(1))).await;
    ear.until(|signal| matches!(signal, Signal::Frame(_, frame) if frame.first == 1))
        .await;
}

#[tokio::test]
async fn one_server_passes_every_case_over_tls_as_a_user() -> anyhow::Result<()> {
    let certificate = Certificate::make()?;
    let (_server, port) = start(&certificate, &[]).await?;
    let store = connect(&format!("rediss://{LOGIN}@127.0.0.1:{port}"), &certificate).await?;
    for (name, case) in cases() {
        println!("{name}");
        bounded(case(&store)).await;
    }
    Ok(())
}

#[tokio::test]
async fn a_cluster_works_over_tls_as_a_user() -> anyhow::Result<()> {
    let certificate = Certificate::make()?;
    // With the second the nodes tell clients of their TLS ports.
    let cluster = [("cluster-enabled", "yes"), ("tls-cluster", "yes")];
    let (server, port) = start(&certificate, &cluster).await?;
    let _: () = server
        .command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"])
        .await?;
    let url = format!("rediss+cluster://{LOGIN}@127.0.0.1:{port}");
    bounded(works(&connect(&url, &certificate).await?)).await;
    Ok(())
}

#[tokio::test]
async fn sentinels_with_a_password_lead_to_a_primary_with_users_over_tls() -> anyhow::Result<()> {
    let certificate = Certificate::make()?;
    let (_primary, port) = start(&certificate, &[]).await?;
    let (sentinel_port, _) = free_ports();
    let mut config = certificate.options(sentinel_port);
    config.extend([
        ("tls-replication", "yes".into()),
        ("requirepass", "sesame".into()),
    ]);
    let _sentinel = RedisServer::start_secured_sentinel(port, &config, "sesame").await?;
    let url = format!(
        "rediss+sentinel://{LOGIN}@127.0.0.1:{sentinel_port}/main?sentinel_password=sesame"
    );
    bounded(works(&connect(&url, &certificate).await?)).await;
    Ok(())
}

#[tokio::test]
async fn a_refused_login_is_said_at_once_and_without_the_password() -> anyhow::Result<()> {
    let certificate = Certificate::make()?;
    let (server, _) = start(&certificate, &[("cluster-enabled", "yes")]).await?;
    let _: () = server
        .command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"])
        .await?;
    let plain = RedisServer::start().await?;
    for url in [
        format!("redis://baton:guess@127.0.0.1:{}", server.port),
        format!("redis://nobody:guess@127.0.0.1:{}", plain.port),
        format!("redis+cluster://baton:guess@127.0.0.1:{}", server.port),
    ] {
        let error = RedisStore::connect(&url, "test").await.err();
        let error = error.expect("the password is wrong");
        let text = error.to_string();
        assert!(matches!(error, Error::Unavailable(_)), "{text}");
        assert!(text.contains("refuses the login"), "{url}: {text}");
        assert!(!text.contains("guess"), "{text}");
    }
    Ok(())
}

#[tokio::test]
async fn a_server_that_nobody_vouches_for_is_refused() -> anyhow::Result<()> {
    let (certificate, other) = (Certificate::make()?, Certificate::make()?);
    let (_server, port) = start(&certificate, &[]).await?;
    let url = format!("rediss://{LOGIN}@127.0.0.1:{port}");
    let error = connect(&url, &other).await.err();
    let text = error.expect("it has another certificate").to_string();
    assert!(text.contains("certificate"), "{text}");
    Ok(())
}
