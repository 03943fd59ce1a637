//! Headers that a client wants sent to an MCP server.

use super::refusal::RefusalReason;
use super::server_entry::NameValue;

/// A request stays one request, and goes to the host that its URL names.
pub(super) fn check(headers: &[NameValue]) -> Result<(), RefusalReason> {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    for NameValue { name, value } in headers {
        let plain = !name.is_empty() && name.chars().all(token);
        if !plain || value.contains(['\r', '\n', '\0']) {
            return Err(RefusalReason::Shape("headers"));
        }
        if name.eq_ignore_ascii_case("host") {
            return Err(RefusalReason::HostHeader);
        }
    }
    Ok(())
}
