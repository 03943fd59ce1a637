//! The store of gateways and workers: whether it answers and keeps what it is given, and how far
//! its clock is from ours.

use std::time::Duration;

use baton_session::store::redis::{ClockOffset, Diagnosis, ServerFacts};
use baton_session::token::MAX_SKEW;

use super::Finding;
use crate::options::StoreOptions;

const SUBJECT: &str = "store";
const CLOCK: &str = "clock";
/// Every request waits for at least one round trip.
const SLOW: Duration = Duration::from_millis(10);
/// Clocks that are kept by NTP differ by less.
const DRIFT: Duration = Duration::from_secs(2);

pub async fn check(options: &StoreOptions) -> Vec<Finding> {
    match options.diagnose().await {
        Ok(diagnosis) => judge(&diagnosis, options.wants_replicas()),
        Err(error) => vec![Finding::fail(SUBJECT, error.to_string())],
    }
}

fn judge(diagnosis: &Diagnosis, wants_replicas: bool) -> Vec<Finding> {
    let mut findings = vec![latency(diagnosis.latency)];
    if diagnosis.servers.is_empty() {
        findings.push(Finding::warn(
            SUBJECT,
            "the user of --store may not call INFO, so the settings could not be checked: Redis \
             should have appendonly yes and maxmemory-policy noeviction. `baton store users` \
             writes users that may",
        ));
    }
    for server in &diagnosis.servers {
        findings.push(version(server));
        findings.extend(keeps_sessions(server));
        findings.extend(wants_replicas.then(|| replicas(server)));
    }
    findings.push(clock(diagnosis.clock));
    findings
}

fn latency(latency: Duration) -> Finding {
    let millis = latency.as_secs_f64() * 1_000.0;
    let text = format!("answers in {millis:.1} ms");
    if latency > SLOW {
        Finding::warn(
            SUBJECT,
            format!(
                "{text}: every request waits for that at least once. Put Redis into the same \
                 network"
            ),
        )
    } else {
        Finding::ok(SUBJECT, text)
    }
}

fn version(server: &ServerFacts) -> Finding {
    let (address, version) = (&server.address, &server.version);
    if !server.is_supported {
        return Finding::fail(
            SUBJECT,
            format!("{address}: version {version}; 7.0 or newer is needed"),
        );
    }
    match &server.replica_of {
        Some(primary) => Finding::fail(
            SUBJECT,
            format!("{address}: a read-only replica; --store must name its primary, {primary}"),
        ),
        None => Finding::ok(SUBJECT, format!("{address}: version {version}, a primary")),
    }
}

/// Settings by which sessions could be lost.
fn keeps_sessions(server: &ServerFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    let address = &server.address;
    if !server.append_only {
        findings.push(Finding::warn(
            SUBJECT,
            format!(
                "{address}: a restart loses sessions, since the append-only file is off. Set \
                 appendonly yes (`redis-cli config set appendonly yes`, and in its configuration)"
            ),
        ));
    }
    if let Some(policy) = &server.eviction {
        findings.push(Finding::warn(
            SUBJECT,
            format!(
                "{address}: sessions are evicted once memory is full, since maxmemory-policy is \
                 {policy}. Set it to noeviction"
            ),
        ));
    }
    if findings.is_empty() {
        let text = format!("{address}: keeps what it is given (append-only file, no eviction)");
        findings.push(Finding::ok(SUBJECT, text));
    }
    findings
}

fn replicas(server: &ServerFacts) -> Finding {
    let address = &server.address;
    match server.replicas_in_step {
        0 => Finding::fail(
            SUBJECT,
            format!(
                "{address}: no replica is in step, and --durability replicated needs one. Add \
                 two, or use --durability fast"
            ),
        ),
        1 => Finding::warn(
            SUBJECT,
            format!(
                "{address}: one replica is in step; when it leaves nothing is acknowledged any \
                 more. Add another"
            ),
        ),
        several => Finding::ok(
            SUBJECT,
            format!("{address}: {several} replicas are in step"),
        ),
    }
}

/// Leases go by the store's clock, tokens by that of each gateway.
fn clock(offset: Option<ClockOffset>) -> Finding {
    let Some(ClockOffset { by, ahead }) = offset else {
        return Finding::warn(
            CLOCK,
            "the user of --store may not call TIME, so clocks could not be compared. `baton store \
             users` writes users that may",
        );
    };
    let seconds = by.as_secs_f64();
    let side = if ahead { "ahead of" } else { "behind" };
    let remedy = "Run a time service on both machines (`timedatectl set-ntp true`)";
    // Two gateways may be off in opposite directions.
    if by > Duration::from_secs(MAX_SKEW / 2) {
        let text = format!(
            "{seconds:.1} s {side} the store's: tokens count as expired, or as not yet valid. \
             {remedy}"
        );
        return Finding::fail(CLOCK, text);
    }
    if by > DRIFT {
        Finding::warn(
            CLOCK,
            format!("{seconds:.1} s {side} the store's. {remedy}"),
        )
    } else {
        Finding::ok(CLOCK, format!("{seconds:.1} s from the store's"))
    }
}
