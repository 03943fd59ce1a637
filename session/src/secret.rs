//! Text that must not end up in a log.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// A token or the like. Printed it is a short hash: enough to find the same one again, of no use to
/// anybody else. It cannot be serialized; who needs the text says [`Self::expose`].
#[derive(Clone)]
pub struct Secret(Arc<str>);

impl Secret {
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("secret:")?;
        let hash = Sha256::digest(self.0.as_bytes());
        hash[..6]
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How long it takes says nothing about where two of one length differ.
impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }
}

impl Eq for Secret {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_a_hash() {
        let secret = Secret::from("abc".to_owned());
        // The hash of "abc", from FIPS 180.
        assert_eq!(
            format!("{secret} {secret:?}"),
            "secret:ba7816bf8f01 secret:ba7816bf8f01"
        );
        assert_eq!(secret.expose(), "abc");
        assert_eq!(secret, Secret::from("abc".to_owned()));
        assert_ne!(secret, Secret::from("abd".to_owned()));
        assert_ne!(secret, Secret::from("abcd".to_owned()));
    }
}
