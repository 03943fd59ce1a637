//! `baton token`: keys and tokens.

use clap::{Subcommand, ValueEnum};
use jsonwebtoken::Algorithm;

use crate::revoke;

#[derive(Subcommand)]
pub enum Command {
    /// Print a new key set for --keys
    Keygen {
        /// HS256 is small and fast; EdDSA lets others verify tokens without a secret
        #[arg(long, default_value = "hs256")]
        alg: Kind,
    },
    /// Take a session, a connection or all of somebody's connections back, on all gateways
    Revoke(revoke::Arguments),
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Kind {
    Hs256,
    Eddsa,
}

pub async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Keygen { alg } => {
            let algorithm = match alg {
                Kind::Hs256 => Algorithm::HS256,
                Kind::Eddsa => Algorithm::EdDSA,
            };
            println!("{}", baton_session::token::generate(algorithm));
        }
        Command::Revoke(arguments) => revoke::run(arguments).await?,
    }
    Ok(())
}
