//! Options of every command that has a gateway in it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use baton_gateway::admin::AdminListener;
use baton_gateway::auth::{
    ApiKeys, AuthMethod, BearerOptions, BearerTokens, ClaimPolicy, OidcOptions, TokenType,
};
use baton_gateway::http::origins::AllowedOrigins;
use baton_gateway::limits::CallerLimits;
use baton_gateway::net::transport::TransportConfig;
use baton_gateway::{ConversationScope, McpDoorOptions};
use baton_session::store::INBOX_LIMIT;
use clap::{Args, ValueEnum};
use jsonwebtoken::Algorithm;

use crate::admin::AdminOptions;
use crate::agent_policy::ClientTrust;
use crate::headings::{AUTHENTICATION, LIMITS, NETWORK};
use crate::limits::LimitOptions;
use crate::provider_login::ProviderLoginOptions;
use crate::transport::{TransportContext, TransportOptions};

#[derive(Args)]
pub struct EdgeOptions {
    /// Maximum number of commands that wait in one session
    ///
    /// A command beyond it is refused.
    #[arg(
        long,
        env = "BATON_QUEUE_LIMIT",
        default_value_t = INBOX_LIMIT,
        value_name = "N",
        help_heading = LIMITS
    )]
    pub queue_limit: u64,
    /// Host names that requests may use besides localhost; * for any
    ///
    /// Requests with another name in their Host header are refused. Name those by which clients and
    /// load balancers address this gateway.
    #[arg(
        long,
        env = "BATON_ALLOW_HOST",
        value_delimiter = ',',
        value_name = "NAMES",
        help_heading = NETWORK
    )]
    allow_host: Vec<String>,
    /// Web origins that may send requests, such as https://app.example.com
    ///
    /// Pages of this machine may always send requests.
    #[arg(
        long,
        env = "BATON_ALLOW_ORIGIN",
        value_delimiter = ',',
        value_name = "ORIGINS",
        help_heading = NETWORK
    )]
    allow_origin: Vec<String>,
    /// The page at /, with which people use their sessions in a browser
    #[arg(long, env = "BATON_CONSOLE", default_value = "on", help_heading = NETWORK)]
    console: ConsoleMode,
    /// Which session a call at /mcp is about that names none
    ///
    /// connection: the last that its MCP session has started. request: one of its own, which is
    /// gone with its answer. shared: one for each caller and agent. `?scope=` in the address comes
    /// first.
    #[arg(long, env = "BATON_MCP_SCOPE", default_value = "connection", help_heading = NETWORK)]
    mcp_scope: ConversationScopeName,
    /// Directory of sessions that MCP clients start without naming one
    #[arg(
        long,
        env = "BATON_MCP_CWD",
        default_value = "/",
        value_name = "PATH",
        value_parser = absolute_path,
        help_heading = NETWORK
    )]
    mcp_cwd: String,
    /// Authentication of clients
    #[arg(long, env = "BATON_AUTH", default_value = "none", help_heading = AUTHENTICATION)]
    auth: AuthKind,
    /// Permit remote clients without authentication or without TLS
    ///
    /// Without it the process refuses to listen beyond this machine with --auth none, or with
    /// credentials that travel in clear text.
    #[arg(
        long,
        env = "BATON_INSECURE",
        value_parser = clap::builder::BoolishValueParser::new(),
        help_heading = NETWORK
    )]
    insecure: bool,
    #[command(flatten)]
    admin: AdminOptions,
    /// File of hashed API keys, for --auth keys
    ///
    /// `baton token api-key` creates entries. Changes of the file take effect without a restart.
    #[arg(long, env = "BATON_AUTH_KEYS", value_name = "FILE", help_heading = AUTHENTICATION)]
    auth_keys: Option<PathBuf>,
    /// Issuer of the tokens (iss), for --auth jwt
    #[arg(long, env = "BATON_AUTH_ISSUER", value_name = "URL", help_heading = AUTHENTICATION)]
    auth_issuer: Option<String>,
    /// Audience of the tokens (aud), for --auth jwt
    #[arg(long, env = "BATON_AUTH_AUDIENCE", value_name = "NAME", help_heading = AUTHENTICATION)]
    auth_audience: Option<String>,
    /// Key set of the issuer, an https URL or a file, for --auth jwt
    #[arg(long, env = "BATON_AUTH_JWKS", value_name = "URL", help_heading = AUTHENTICATION)]
    auth_jwks: Option<String>,
    /// Signature algorithms, for --auth jwt
    #[arg(
        long,
        env = "BATON_AUTH_ALGS",
        value_delimiter = ',',
        default_value = "RS256,ES256,EdDSA",
        value_name = "LIST",
        help_heading = AUTHENTICATION
    )]
    auth_algs: Vec<Algorithm>,
    /// Accept only tokens that are bound to a key (DPoP), for --auth jwt
    #[arg(
        long,
        env = "BATON_AUTH_REQUIRE_DPOP",
        value_parser = clap::builder::BoolishValueParser::new(),
        help_heading = AUTHENTICATION
    )]
    auth_require_dpop: bool,
    /// Claims that every token must have, for --auth jwt
    ///
    /// A claim matches if it is VALUE or a list that contains it. Several are separated by
    /// semicolons, and all of them must match.
    #[arg(
        long,
        env = "BATON_AUTH_REQUIRE",
        value_delimiter = ';',
        value_name = "CLAIM=VALUE",
        help_heading = AUTHENTICATION
    )]
    auth_require: Vec<String>,
    /// Claims that make an administrator, for --auth jwt
    ///
    /// One of them is enough. Administrators see and steer the whole cluster in the console.
    /// Several are separated by semicolons.
    #[arg(
        long,
        env = "BATON_AUTH_ADMIN",
        value_delimiter = ';',
        value_name = "CLAIM=VALUE",
        help_heading = AUTHENTICATION
    )]
    auth_admin: Vec<String>,
    /// Claims with which a client may only watch, for --auth jwt
    ///
    /// One of them is enough. Several are separated by semicolons.
    #[arg(
        long,
        env = "BATON_AUTH_OBSERVE",
        value_delimiter = ';',
        value_name = "CLAIM=VALUE",
        help_heading = AUTHENTICATION
    )]
    auth_observe: Vec<String>,
    /// Type (typ) of the tokens, for --auth jwt
    #[arg(
        long,
        env = "BATON_AUTH_TYP",
        default_value = "any",
        help_heading = AUTHENTICATION
    )]
    auth_typ: TokenTypeOption,
    /// Agents that only clients with a claim may use
    ///
    /// Several are separated by semicolons. For API keys the only claim is sub, the name of the
    /// principal.
    #[arg(
        long,
        env = "BATON_ALLOW_AGENT",
        value_delimiter = ';',
        value_name = "NAME=CLAIM=VALUE",
        help_heading = AUTHENTICATION
    )]
    allow_agent: Vec<String>,
    #[command(flatten)]
    oidc: ProviderLoginOptions,
    #[command(flatten)]
    limits: LimitOptions,
    #[command(flatten)]
    transport: TransportOptions,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AuthKind {
    /// No authentication
    None,
    /// API keys, see --auth-keys
    Keys,
    /// Tokens of an identity provider, see --auth-issuer
    Jwt,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ConsoleMode {
    /// There is a page
    On,
    /// There is none
    Off,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ConversationScopeName {
    /// The last that its MCP session has started
    Connection,
    /// One of its own
    Request,
    /// One for each caller and agent
    Shared,
}

fn absolute_path(text: &str) -> Result<String, &'static str> {
    if Path::new(text).is_absolute() {
        Ok(text.into())
    } else {
        Err("not an absolute path")
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TokenTypeOption {
    /// JWT, at+jwt, or none
    Any,
    /// Access tokens as in RFC 9068
    #[value(name = "at+jwt")]
    AccessToken,
}

impl EdgeOptions {
    pub fn origins(&self) -> AllowedOrigins {
        AllowedOrigins {
            hosts: self.allow_host.clone(),
            origins: self.allow_origin.clone(),
        }
    }

    /// Whether anybody but who sits at this machine can be let in. A balancer on it listens for
    /// others.
    pub fn clients(&self, listen: SocketAddr) -> ClientTrust {
        let local = listen.ip().is_loopback()
            && self.auth == AuthKind::None
            && self.allow_host.is_empty()
            && self.allow_origin.is_empty()
            && !self.transport.is_behind_proxies();
        if local {
            ClientTrust::Local
        } else {
            ClientTrust::Anybody
        }
    }

    /// Whether there is a page at `/`.
    pub fn shows_console(&self) -> bool {
        self.console == ConsoleMode::On
    }

    /// For clients that speak MCP.
    pub fn mcp(&self) -> McpDoorOptions {
        McpDoorOptions {
            scope: match self.mcp_scope {
                ConversationScopeName::Connection => ConversationScope::Connection,
                ConversationScopeName::Request => ConversationScope::Request,
                ConversationScopeName::Shared => ConversationScope::Shared,
            },
            cwd: self.mcp_cwd.clone(),
        }
    }

    /// Callers have to say who they are.
    pub fn authenticates(&self) -> bool {
        self.auth != AuthKind::None
    }

    /// Files that hold keys, or hashes of them.
    pub fn kept(&self) -> Vec<PathBuf> {
        let keys = self.auth_keys.iter().cloned();
        let keys = keys.chain(self.oidc.kept()).chain(self.transport.kept());
        keys.chain(self.admin.kept()).collect()
    }

    /// The limits of each caller. Faults are reported by [`Self::auth`].
    pub fn limits(&self) -> CallerLimits {
        self.limits.limits().0
    }

    /// The budget of bytes in flight.
    pub fn max_inflight_bytes(&self) -> u64 {
        self.limits.max_inflight_bytes
    }

    /// How requests come in, and every fault.
    pub fn transport(&self, listen: SocketAddr) -> (TransportConfig, Vec<String>) {
        self.transport.transport(&TransportContext {
            listen,
            asks: self.auth != AuthKind::None,
            insecure: self.insecure,
        })
    }

    /// The authentication of callers, and every fault.
    pub fn auth(&self, listen: SocketAddr) -> (AuthMethod, Vec<String>) {
        let (_, mut faults) = self.limits.limits();
        if !(1..=65_536).contains(&self.queue_limit) {
            let limit = self.queue_limit;
            faults.push(format!(
                "--queue-limit {limit}: must be between 1 and 65536"
            ));
        }
        for host in self.allow_host.iter().filter(|host| *host != "*") {
            if host.is_empty()
                || host.contains(['/', ' '])
                || host
                    .rsplit_once(':')
                    .is_some_and(|(_, port)| port.parse::<u16>().is_ok())
            {
                faults.push(format!(
                    "--allow-host {host:?}: a name without scheme and port, or *"
                ));
            }
        }
        for origin in &self.allow_origin {
            let scheme = ["http://", "https://"]
                .iter()
                .find_map(|scheme| origin.strip_prefix(scheme));
            if scheme.is_none_or(|rest| rest.is_empty() || rest.contains(['/', '*', ' '])) {
                faults.push(format!(
                    "--allow-origin {origin:?}: as browsers write it, such as \
                     https://app.example.com"
                ));
            }
        }
        faults.extend(self.admin.faults(self.insecure));
        if self.auth_require_dpop && self.auth != AuthKind::Jwt {
            faults.push(
                "--auth-require-dpop: only tokens can be bound, so it needs --auth jwt".into(),
            );
        }
        let policy = self.policy(&mut faults);
        let is_possible = self.auth == AuthKind::Jwt && !self.auth_require_dpop;
        let oidc = self.oidc.read(is_possible, &mut faults);
        let auth = match self.auth {
            AuthKind::None => {
                if !listen.ip().is_loopback() && !self.insecure {
                    faults.push(format!(
                        "--listen {listen} with --auth none: anybody who reaches it could use \
                         every session. Use --auth keys or --auth jwt, listen on 127.0.0.1, or \
                         say --insecure"
                    ));
                }
                Ok(AuthMethod::Open)
            }
            AuthKind::Keys => match &self.auth_keys {
                Some(path) => ApiKeys::open(path, policy).map(AuthMethod::Keys),
                None => Err("--auth keys needs --auth-keys FILE".into()),
            },
            AuthKind::Jwt => self.bearer(policy, oidc),
        };
        match auth {
            Ok(auth) => (auth, faults),
            Err(fault) => {
                faults.push(fault);
                (AuthMethod::Open, faults)
            }
        }
    }

    pub async fn bind_admin(&self, port: u16) -> anyhow::Result<Option<AdminListener>> {
        self.admin.bind(port).await
    }

    /// The rights of callers, by claims.
    fn policy(&self, faults: &mut Vec<String>) -> ClaimPolicy {
        let (policy, wrong) = ClaimPolicy::read(&self.auth_require, &self.allow_agent);
        faults.extend(wrong);
        let (policy, wrong) = policy.with_roles(&self.auth_admin, &self.auth_observe);
        faults.extend(wrong);
        if self.auth != AuthKind::Jwt {
            let tokens_only = [
                (!self.auth_require.is_empty(), "--auth-require"),
                (!self.auth_admin.is_empty(), "--auth-admin"),
                (!self.auth_observe.is_empty(), "--auth-observe"),
                (self.auth_typ != TokenTypeOption::Any, "--auth-typ"),
            ];
            for (_, option) in tokens_only.iter().filter(|(given, _)| *given) {
                faults.push(format!(
                    "{option}: it is about tokens of an identity provider, so it needs --auth jwt"
                ));
            }
        }
        let unusable = |claim: &str| match self.auth {
            AuthKind::None => true,
            AuthKind::Keys => claim != "sub",
            AuthKind::Jwt => false,
        };
        if policy.agent_rules().any(|rule| unusable(rule.claim())) {
            faults.push(
                "--allow-agent: it needs --auth jwt, or --auth keys and the claim sub, which is \
                 the principal's name"
                    .into(),
            );
        }
        policy
    }

    fn bearer(&self, policy: ClaimPolicy, oidc: Option<OidcOptions>) -> Result<AuthMethod, String> {
        let (Some(issuer), Some(audience), Some(jwks)) =
            (&self.auth_issuer, &self.auth_audience, &self.auth_jwks)
        else {
            return Err("--auth jwt needs --auth-issuer, --auth-audience and --auth-jwks".into());
        };
        let bearer = BearerTokens::new(BearerOptions {
            issuer: issuer.clone(),
            audience: audience.clone(),
            jwks: jwks.clone(),
            algorithms: self.auth_algs.clone(),
            require_proof: self.auth_require_dpop,
            token_type: match self.auth_typ {
                TokenTypeOption::Any => TokenType::Any,
                TokenTypeOption::AccessToken => TokenType::AccessToken,
            },
            policy,
            oidc,
        })?;
        Ok(AuthMethod::Jwt(Box::new(bearer)))
    }
}
