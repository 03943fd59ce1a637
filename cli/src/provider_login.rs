//! How people log in at the page of an identity provider.

use std::path::{Path, PathBuf};

use baton_gateway::auth::OidcOptions;
use baton_session::secret::Secret;
use clap::Args;

use crate::headings::AUTHENTICATION;

#[derive(Args)]
pub struct ProviderLoginOptions {
    /// Client id under which the console lets people log in at the issuer, for --auth jwt
    ///
    /// The authorisation code flow with PKCE. Register ORIGIN/v1/login/oidc/callback there, for
    /// each origin of the console.
    #[arg(long, env = "BATON_AUTH_OIDC_CLIENT", value_name = "ID", help_heading = AUTHENTICATION)]
    auth_oidc_client: Option<String>,
    /// File with the secret of that client, if the issuer wants one
    #[arg(
        long,
        env = "BATON_AUTH_OIDC_SECRET_FILE",
        value_name = "FILE",
        help_heading = AUTHENTICATION
    )]
    auth_oidc_secret_file: Option<PathBuf>,
    /// Scopes that the console asks the issuer for
    #[arg(
        long,
        env = "BATON_AUTH_OIDC_SCOPE",
        default_value = "openid",
        value_name = "SCOPES",
        help_heading = AUTHENTICATION
    )]
    auth_oidc_scope: String,
    /// Further parameters of the console's request to the issuer, such as audience=baton
    ///
    /// Several are separated by semicolons. Some issuers have to be told for whom the access token
    /// is, by audience or resource.
    #[arg(
        long,
        env = "BATON_AUTH_OIDC_PARAMETERS",
        value_delimiter = ';',
        value_name = "NAME=VALUE",
        help_heading = AUTHENTICATION
    )]
    auth_oidc_parameters: Vec<String>,
}

/// Parameters that the flow itself sets.
const OWN: [&str; 8] = [
    "response_type",
    "client_id",
    "redirect_uri",
    "scope",
    "state",
    "nonce",
    "code_challenge",
    "code_challenge_method",
];

impl ProviderLoginOptions {
    /// `is_possible`: callers bring tokens that pages could use.
    pub fn read(&self, is_possible: bool, faults: &mut Vec<String>) -> Option<OidcOptions> {
        let client = self.auth_oidc_client.clone()?;
        if !is_possible {
            faults.push(
                "--auth-oidc-client: it needs --auth jwt, and tokens that are bound to no key"
                    .into(),
            );
        }
        if !self
            .auth_oidc_scope
            .split(' ')
            .any(|scope| scope == "openid")
        {
            faults.push("--auth-oidc-scope: openid has to be one of them".into());
        }
        let mut parameters = Vec::new();
        for text in &self.auth_oidc_parameters {
            match text.split_once('=') {
                Some((name, value)) if !name.is_empty() && !OWN.contains(&name) => {
                    parameters.push((name.to_owned(), value.to_owned()));
                }
                _ => faults.push(format!(
                    "--auth-oidc-parameters {text:?}: write NAME=VALUE, such as audience=baton; \
                     those of the flow itself cannot be set"
                )),
            }
        }
        let secret = self.auth_oidc_secret_file.as_deref().map(read_secret);
        let secret = secret.transpose().unwrap_or_else(|fault| {
            faults.push(fault);
            None
        });
        Some(OidcOptions {
            client,
            secret,
            scope: self.auth_oidc_scope.clone(),
            parameters,
        })
    }

    /// Files that hold secrets.
    pub fn kept(&self) -> Option<PathBuf> {
        self.auth_oidc_secret_file.clone()
    }
}

fn read_secret(path: &Path) -> Result<Secret, String> {
    let named = |why: String| format!("--auth-oidc-secret-file {}: {why}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| named(error.to_string()))?;
    match text.trim() {
        "" => Err(named("it is empty".into())),
        secret => Ok(secret.to_owned().into()),
    }
}
