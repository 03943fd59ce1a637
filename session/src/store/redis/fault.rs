//! Classifies errors of Redis: whether to retry, whether to reconnect, and how to describe them.

use redis::{ErrorKind, RedisError, RetryMethod};

/// Worth another try: the network, a server that is starting, failing over, full or moving slots.
pub(super) fn is_passing(error: &RedisError) -> bool {
    let codes = [
        "LOADING",
        "READONLY",
        "CLUSTERDOWN",
        "TRYAGAIN",
        "MASTERDOWN",
        "BUSY",
        "NOREPLICAS",
        "OOM",
        "MISCONF",
        "UNBLOCKED",
    ];
    // A script came upon a key that is on its way to another node. Steps can be repeated from
    // there.
    let moving = ["non local key", "cluster is down"];
    let told = |text: &str| moving.iter().any(|told| text.contains(told));
    error.is_io_error()
        || error.is_cluster_error()
        || is_refused_login(error)
        || error.code().is_some_and(|code| codes.contains(&code))
        || error.detail().is_some_and(told)
        || !matches!(error.retry_method(), RetryMethod::NoRetry)
}

/// The next try needs another connection, perhaps to another server.
pub(super) fn breaks(error: &RedisError) -> bool {
    let codes = ["READONLY", "MASTERDOWN", "UNBLOCKED", "NOAUTH"];
    error.is_io_error()
        || error.is_unrecoverable_error()
        || error.code().is_some_and(|code| codes.contains(&code))
}

pub(super) fn is_refused_login(error: &RedisError) -> bool {
    let codes = ["WRONGPASS", "NOAUTH"];
    // A cluster's connection hides the code in its text.
    let told = |text: &str| codes.iter().any(|code| text.contains(code));
    error.kind() == ErrorKind::AuthenticationFailed
        || error.code().is_some_and(|code| codes.contains(&code))
        || error.is_io_error() && error.detail().is_some_and(told)
}

/// For metrics: one of a few words.
pub(super) fn reason(error: &RedisError) -> &'static str {
    match error.code() {
        _ if is_refused_login(error) => "login",
        Some("OOM") => "full",
        Some("LOADING") => "loading",
        Some("READONLY" | "MASTERDOWN" | "UNBLOCKED") => "failover",
        Some("CLUSTERDOWN" | "TRYAGAIN" | "MOVED" | "ASK") => "cluster",
        Some("NOREPLICAS") => "replicas",
        Some("BUSY") => "busy",
        Some("MISCONF") => "disk",
        _ if error.is_timeout() => "timeout",
        _ if error.is_cluster_error() => "cluster",
        _ if error.is_io_error() => "connection",
        _ => "other",
    }
}

/// How what a user may not do is said.
pub(super) const LACKS_PERMISSION: &str = "the Redis user lacks a permission";

/// For people. The texts of Redis and of the crate name neither user nor password.
pub(super) fn explain(error: &RedisError) -> String {
    if is_refused_login(error) {
        return "Redis refuses the login: user or password in --store are wrong or missing".into();
    }
    if error.kind() == ErrorKind::MasterNameNotFoundBySentinel {
        let name = error.detail().unwrap_or_default();
        return format!("the sentinels know no primary named {name}");
    }
    let known = match error.code() {
        Some("OOM") => {
            "Redis is out of memory: raise its maxmemory, or remove sessions that nobody needs"
        }
        Some("READONLY") => "Redis is a read-only replica: --store must name the primary",
        Some("NOREPLICAS") => "Redis takes no writes, since it has too few replicas in step",
        Some("MISCONF") => "Redis takes no writes, since it cannot save to its disk",
        Some("NOPERM") => return format!("{LACKS_PERMISSION} ({error})"),
        _ => return error.to_string(),
    };
    known.into()
}
