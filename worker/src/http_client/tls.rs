//! Whom a client trusts.

use std::sync::Arc;

use http::Uri;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

pub fn client_config(url: &Uri, ca: Option<&[u8]>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    // A machine without certificates can still speak to a server that has none either.
    if url.scheme_str() != Some("http") {
        let native = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(native.certs);
        if roots.is_empty() && ca.is_none() {
            return Err(format!(
                "this machine has no certificates to trust ({:?}): install ca-certificates, or \
                 name a file with them",
                native.errors
            ));
        }
    }
    if let Some(pem) = ca {
        add(&mut roots, pem).map_err(|fault| format!("the file of certificates: {fault}"))?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions();
    let builder = builder.expect("the provider has what its versions need");
    let builder = builder.with_root_certificates(roots);
    Ok(builder.with_no_client_auth())
}

fn add(roots: &mut RootCertStore, pem: &[u8]) -> Result<(), String> {
    let mut found = false;
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
        found = true;
    }
    if found {
        Ok(())
    } else {
        Err("there is none in it, in PEM".into())
    }
}
