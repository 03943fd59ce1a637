//! The certificate that clients are shown, read from files that are watched: it changes without a
//! restart, and connections that are open stay as they are.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use baton_session::audit::AuditLog;
use baton_session::file_watch;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_util::sync::CancellationToken;

/// A handle; clones see the same certificate.
#[derive(Clone)]
pub struct TlsCertificate(Arc<CertificateState>);

struct CertificateState {
    certificate: PathBuf,
    key: PathBuf,
    /// Held for moments only, never while something is read.
    current: Mutex<LoadedCertificate>,
}

struct LoadedCertificate {
    config: Arc<ServerConfig>,
    files: CertificateFiles,
}

#[derive(PartialEq, Eq)]
struct CertificateFiles {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl std::fmt::Debug for TlsCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tls({})", self.0.certificate.display())
    }
}

impl TlsCertificate {
    /// A certificate with those that lead to its issuer, and its key, both in PEM.
    pub fn open(certificate: &Path, key: &Path) -> Result<Self, String> {
        let files = CertificateFiles::read(certificate, key)?;
        let config = files.config(certificate, key)?;
        Ok(Self(Arc::new(CertificateState {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            current: Mutex::new(LoadedCertificate { config, files }),
        })))
    }

    /// For the next handshake.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.with_current(|current| current.config.clone())
    }

    /// Looks for changes until `stop`.
    pub async fn watch(self, stop: CancellationToken, audit: AuditLog) {
        file_watch::follow("the certificate", stop, audit, move || self.refresh()).await;
    }

    /// Looks for a change now, and says whether there was one. After an error the certificate is
    /// the old one. Contents are compared: Kubernetes swaps files by a link, and their times say
    /// nothing.
    fn refresh(&self) -> Result<bool, String> {
        let (certificate, key) = (&self.0.certificate, &self.0.key);
        let files = CertificateFiles::read(certificate, key)?;
        if self.with_current(|current| current.files == files) {
            return Ok(false);
        }
        let config = files.config(certificate, key)?;
        self.with_current(|current| *current = LoadedCertificate { config, files });
        Ok(true)
    }

    fn with_current<T>(&self, f: impl FnOnce(&mut LoadedCertificate) -> T) -> T {
        // Nothing that is done under the lock can panic half way.
        f(&mut self
            .0
            .current
            .lock()
            .unwrap_or_else(PoisonError::into_inner))
    }
}

impl CertificateFiles {
    fn read(certificate: &Path, key: &Path) -> Result<Self, String> {
        let read =
            |path: &Path| fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
        Ok(Self {
            certificate: read(certificate)?,
            key: read(key)?,
        })
    }

    fn config(&self, certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, String> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.certificate).collect();
        let chain = chain.map_err(|error| format!("{}: {error}", certificate.display()))?;
        if chain.is_empty() {
            let path = certificate.display();
            return Err(format!("{path}: there is no certificate in it (PEM)"));
        }
        // The error says nothing of what the file holds.
        let secret = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|_| format!("{}: there is no private key in it (PEM)", key.display()))?;
        let provider = Arc::new(ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_no_client_auth()
            .with_single_cert(chain, secret);
        let mut config = config.map_err(|error| {
            let (certificate, key) = (certificate.display(), key.display());
            format!("{certificate} with {key}: {error}")
        })?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::socket::tests::pair;
    use rustls::{ClientConfig, RootCertStore};
    use std::os::unix::fs::symlink;
    use std::time::Duration;
    use tokio::io::AsyncWriteExt as _;
    use tokio_rustls::{TlsAcceptor, TlsConnector};

    fn make(dir: &Path) -> (PathBuf, PathBuf) {
        fs::create_dir_all(dir).unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (certificate, key) = (dir.join("tls.crt"), dir.join("tls.key"));
        fs::write(&certificate, made.cert.pem()).unwrap();
        fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        (certificate, key)
    }

    #[tokio::test]
    async fn who_does_not_read_is_given_up_under_tls_too() {
        let dir = tempfile::tempdir().unwrap();
        let (certificate, key) = make(dir.path());
        let tls = TlsCertificate::open(&certificate, &key).unwrap();
        let mut trusted = RootCertStore::empty();
        let shown = CertificateDer::from_pem_file(&certificate).unwrap();
        trusted.add(shown).unwrap();
        let provider = Arc::new(ring::default_provider());
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(trusted)
            .with_no_client_auth();
        let (socket, peer) = pair(Duration::from_millis(300)).await;
        let gave_up = socket.gave_up();
        let name = "localhost".try_into().unwrap();
        let (server, _client) = tokio::join!(
            TlsAcceptor::from(tls.config()).accept(socket),
            TlsConnector::from(Arc::new(client)).connect(name, peer),
        );
        let mut server = server.unwrap();
        assert!(!gave_up.get());
        let text = vec![b'x'; 64 << 20];
        let given_up = server.write_all(&text).await.unwrap_err();
        assert_eq!(given_up.kind(), std::io::ErrorKind::TimedOut);
        assert!(gave_up.get());
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let (certificate, key) = make(&dir.path().join("one"));
        let (_, other) = make(&dir.path().join("two"));
        assert!(TlsCertificate::open(&certificate, &key).is_ok());
        let nowhere = dir.path().join("nowhere");
        for (certificate, key, named) in [
            (&nowhere, &key, "nowhere"),
            (&certificate, &nowhere, "nowhere"),
            (&key, &key, "no certificate"),
            (&certificate, &certificate, "no private key"),
            (&certificate, &other, "tls.key"),
        ] {
            let fault = TlsCertificate::open(certificate, key).unwrap_err();
            assert!(fault.contains(named), "{fault}");
        }
    }

    #[test]
    fn a_link_that_leads_elsewhere_is_a_change_and_a_bad_file_is_none() {
        let dir = tempfile::tempdir().unwrap();
        make(&dir.path().join("one"));
        make(&dir.path().join("two"));
        let data = dir.path().join("..data");
        symlink("one", &data).unwrap();
        let tls = TlsCertificate::open(&data.join("tls.crt"), &data.join("tls.key")).unwrap();
        let first = tls.config();
        assert_eq!(tls.refresh(), Ok(false));
        fs::remove_file(&data).unwrap();
        symlink("two", &data).unwrap();
        assert_eq!(tls.refresh(), Ok(true));
        let second = tls.config();
        assert!(!Arc::ptr_eq(&first, &second));
        fs::write(data.join("tls.key"), "half").unwrap();
        assert!(tls.refresh().is_err());
        assert!(Arc::ptr_eq(&second, &tls.config()));
    }
}
