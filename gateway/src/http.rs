//! Headers, origins and bodies: what a request has to look like.
//!
//! | file | contents |
//! |---|---|
//! | `headers` | names and values of headers |
//! | `origins` | the names and origins by which the gateway may be addressed |
//! | `paths` | the paths at which clients are served |
//! | `body` | the body of a request, read within the budgets |
//! | `hardening` | headers for browsers and caches on every answer |

pub mod body;
pub mod hardening;
pub mod headers;
pub mod origins;
pub mod paths;
pub mod query;
