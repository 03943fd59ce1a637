//! An authority of the test's own, what it certifies, and clients that trust nobody else.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use tempfile::TempDir;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::cluster::address;
use super::process::{Process, baton, free_port};
use super::until;

pub const H2: &[u8] = b"h2";
pub const HTTP1: &[u8] = b"http/1.1";

/// `baton serve` with a certificate, in a directory as Kubernetes mounts a secret: all names lead
/// through one link, which is swapped.
pub struct Secured {
    pub process: Process,
    pub port: u16,
    authority: CertifiedIssuer<'static, KeyPair>,
    dir: TempDir,
}

impl Secured {
    pub async fn start(arguments: &[&str]) -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        let authority = authority();
        fs::write(dir.path().join("ca.pem"), authority.pem()).expect("written");
        certify(&authority, &dir.path().join("first"));
        point(dir.path(), "first");
        for name in ["tls.crt", "tls.key"] {
            symlink(Path::new("..data").join(name), dir.path().join(name)).expect("a link");
        }
        let port = free_port();
        let mut command = baton();
        command.args(["serve", "--ephemeral", "--listen", &address(port)]);
        command.arg("--tls-cert").arg(dir.path().join("tls.crt"));
        command.arg("--tls-key").arg(dir.path().join("tls.key"));
        command.args(arguments);
        let process = Process::start(dir.path(), "serve", &mut command);
        let secured = Self {
            process,
            port,
            authority,
            dir,
        };
        until("it shakes hands", async || {
            secured.connect(&[], &[&TLS13]).await.ok()
        })
        .await;
        secured
    }

    pub fn url(&self) -> String {
        format!("https://{}/acp", address(self.port))
    }

    /// What a client has to trust.
    pub fn authority_file(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    /// Another certificate of the same authority.
    pub fn renew(&self) -> CertificateDer<'static> {
        let shown = certify(&self.authority, &self.dir.path().join("second"));
        point(self.dir.path(), "second");
        shown
    }

    /// A certificate of one and the key of another.
    pub fn spoil(&self) {
        let third = self.dir.path().join("third");
        certify(&self.authority, &third);
        let key = KeyPair::generate().expect("a key").serialize_pem();
        fs::write(third.join("tls.key"), key).expect("written");
        point(self.dir.path(), "third");
    }

    pub async fn connect(
        &self,
        protocols: &[&[u8]],
        versions: &[&'static SupportedProtocolVersion],
    ) -> io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(address(self.port)).await?;
        shake_hands(self.client(protocols, versions), stream).await
    }

    /// The certificate that a new connection is shown.
    pub async fn shown(&self) -> CertificateDer<'static> {
        let stream = self.connect(&[], &[&TLS13]).await.expect("a handshake");
        let shown = stream.get_ref().1.peer_certificates();
        shown.expect("there is one")[0].clone().into_owned()
    }

    /// A URL without TLS that leads there by connections with TLS, for clients that know only the
    /// one and see every byte.
    pub async fn tunnel(&self, protocols: &[&[u8]]) -> String {
        self.tunnel_of(self.client(protocols, &[&TLS12, &TLS13]))
            .await
    }

    pub async fn tunnel_of(&self, client: Arc<ClientConfig>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let here = listener.local_addr().expect("bound");
        let there = address(self.port);
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let (client, there) = (client.clone(), there.clone());
                tokio::spawn(async move {
                    let far = TcpStream::connect(there).await?;
                    let mut far = shake_hands(client, far).await?;
                    copy_bidirectional(&mut near, &mut far).await
                });
            }
        });
        format!("http://{here}/acp")
    }

    pub fn client(
        &self,
        protocols: &[&[u8]],
        versions: &[&'static SupportedProtocolVersion],
    ) -> Arc<ClientConfig> {
        let mut trusted = RootCertStore::empty();
        trusted.add(self.authority.der().clone()).expect("a root");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .expect("versions that there are")
            .with_root_certificates(trusted)
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Arc::new(config)
    }
}

async fn shake_hands(
    client: Arc<ClientConfig>,
    stream: TcpStream,
) -> io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from("localhost").expect("a name");
    TlsConnector::from(client).connect(name, stream).await
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    // With a name of its own: OpenSSL takes a certificate for self-signed if issuer and subject agree.
    let name = &mut params.distinguished_name;
    name.push(DnType::CommonName, "An authority of Baton's tests");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let key = KeyPair::generate().expect("a key");
    CertifiedIssuer::self_signed(params, key).expect("an authority")
}

/// Writes a certificate for this machine and its key.
fn certify(authority: &CertifiedIssuer<'static, KeyPair>, dir: &Path) -> CertificateDer<'static> {
    let key = KeyPair::generate().expect("a key");
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let params = CertificateParams::new(names).expect("names");
    let certificate = params.signed_by(&key, authority).expect("certified");
    fs::create_dir_all(dir).expect("the directory is writable");
    fs::write(dir.join("tls.crt"), certificate.pem()).expect("written");
    fs::write(dir.join("tls.key"), key.serialize_pem()).expect("written");
    certificate.der().clone()
}

fn point(dir: &Path, at: &str) {
    let half = dir.join("..half");
    symlink(at, &half).expect("a link");
    fs::rename(half, dir.join("..data")).expect("the directory is writable");
}
