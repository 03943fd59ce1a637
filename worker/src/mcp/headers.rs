//! Headers that a client wants sent to an MCP server.

use super::entry::Pair;
use super::refusal::Reason;

/// A request stays one request, and goes to the host that its URL names.
pub(super) fn check(headers: &[Pair]) -> Result<(), Reason> {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    for Pair { name, value } in headers {
        let plain = !name.is_empty() && name.chars().all(token);
        if !plain || value.contains(['\r', '\n', '\0']) {
            return Err(Reason::Shape("headers"));
        }
        if name.eq_ignore_ascii_case("host") {
            return Err(Reason::HostHeader);
        }
    }
    Ok(())
}
