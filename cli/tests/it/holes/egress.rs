//! M4: an agent looks names up again and follows redirects, so what it reaches is a matter of its network. As installed, workers
//! and their agents are kept off private networks and the cloud's metadata.

use super::redis_rules::project;

/// Where a name must not lead an agent.
const KEPT_OFF: [&str; 6] = [
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "100.64.0.0/10",
    "169.254.0.0/16",
    "198.18.0.0/15",
];

/// The lines after one that is `head`, as long as they are further in.
fn below<'a>(text: &'a str, head: &str) -> Vec<&'a str> {
    let depth = |line: &str| line.len() - line.trim_start().len();
    let mut lines = text.lines().skip_while(|line| *line != head);
    let first = lines
        .next()
        .unwrap_or_else(|| panic!("there is no {head:?}"));
    let own = lines.take_while(|line| line.trim().is_empty() || depth(line) > depth(first));
    own.map(str::trim).collect()
}

#[test]
fn m4_the_unit_of_a_worker_denies_private_networks() {
    let unit = project("deploy/systemd/baton-worker.service");
    let denied = unit
        .lines()
        .filter_map(|line| line.strip_prefix("IPAddressDeny="));
    let denied: Vec<&str> = denied.flat_map(str::split_whitespace).collect();
    for net in KEPT_OFF.iter().chain(&["fc00::/7", "fe80::/10"]) {
        assert!(denied.contains(net), "{net}: {denied:?}");
    }
    let allowed = unit
        .lines()
        .filter_map(|line| line.strip_prefix("IPAddressAllow="));
    assert!(allowed.eq(["localhost"]));
}

#[test]
fn m4_workers_of_compose_are_in_a_network_that_leads_nowhere() {
    let compose = project("deploy/compose.yaml");
    assert!(
        compose.contains("\n  worker-1: *worker\n") && compose.contains("\n  worker-2: *worker\n")
    );
    let worker = below(&compose, "x-worker: &worker");
    let networks: Vec<_> = worker
        .iter()
        .filter(|line| line.starts_with("networks:"))
        .collect();
    assert_eq!(networks, [&"networks: [store]"]);
    assert!(below(&compose, "  store:").contains(&"internal: true"));
}

#[test]
fn m4_a_pool_of_the_chart_that_may_go_out_reaches_public_addresses_alone() {
    let rules = project("helm/baton/templates/_egress.tpl");
    let (_, public) = rules
        .split_once("{{- define \"baton.egressPublic\" -}}")
        .expect("the rule");
    for net in KEPT_OFF {
        assert!(public.contains(&format!("\"{net}\"")), "{net}");
    }
    // Nowhere but to Redis, names and the collector unless an operator says so.
    let values = project("helm/baton/values.yaml");
    assert!(values.contains("\n    egressPublic: []\n") && values.contains("\n    egress: []\n"));
}
