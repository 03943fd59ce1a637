//! M5: the rules of the Redis users are held against the scripts and the code that use Redis.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

type Names = BTreeSet<String>;

/// Scripts that only workers run; those that both run.
const OF_WORKERS: [&str; 6] = ["register", "retire", "tidy", "compact", "expire", "purge"];
const OF_BOTH: [&str; 10] = [
    "format",
    "claim",
    "due",
    "renew",
    "append",
    "append_end",
    "release",
    "inbox",
    "read",
    "entries",
];
/// Commands that code sends, beside the scripts.
const SENT_BY_BOTH: [&str; 12] = [
    "ping",
    "info",
    "eval",
    "evalsha",
    "wait",
    "role",
    "get",
    "hget",
    "ssubscribe",
    "sunsubscribe",
    "spublish",
    "time",
];
const SENT_BY_GATEWAYS: [&str; 4] = ["getrange", "hgetall", "hmget", "set"];
/// Sent to the nodes of a Cluster.
const SENT_TO_CLUSTERS: [&str; 2] = ["cluster|slots", "asking"];
/// Sent, but not part of the rules: docs/deploy/redis-users.md says when to add them. A sentinel has users of its own.
const BY_CHOICE: [&str; 4] = ["config", "command", "waitaof", "sentinel"];

pub(super) fn project(path: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn names(words: &[&str]) -> Names {
    words.iter().map(|word| word.to_string()).collect()
}

/// What comes after each `before`, as long as it is of these characters.
fn after(text: &str, before: &str, fits: impl Fn(char) -> bool) -> Names {
    let parts = text.split(before).skip(1);
    let found = parts.map(|part| part.chars().take_while(|c| fits(*c)).collect::<String>());
    found.filter(|name| !name.is_empty()).collect()
}

/// A script with what it includes.
fn script(name: &str) -> String {
    let text = project(&format!("session/lua/{name}.lua"));
    let included = after(&text, "--@include ", |c| c.is_ascii_lowercase() || c == '_');
    included
        .iter()
        .fold(text, |text, name| text + &script(name))
}

fn calls(scripts: &Names) -> Names {
    let word = |c: char| c.is_ascii_alphanumeric();
    let mut found = Names::new();
    for name in scripts {
        let text = script(name).replace("redis.pcall", "redis.call");
        let plain = text.matches("redis.call(").count();
        assert_eq!(
            plain,
            text.matches("redis.call('").count(),
            "{name}: a command that is computed"
        );
        found.extend(
            after(&text, "redis.call('", word)
                .iter()
                .map(|it| it.to_lowercase()),
        );
    }
    found
}

fn all_scripts() -> Names {
    let source = project("session/src/store/redis/scripts.rs");
    let list = source
        .split("\nscripts!(")
        .nth(1)
        .and_then(|rest| rest.split(')').next());
    let list = list.expect("the list of scripts").split(',').map(str::trim);
    list.filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

/// What is said of a user.
fn rules(role: &str) -> Vec<String> {
    let text = project("deploy/redis/users.acl");
    let user = format!("user NAMESPACE-{role} ");
    let (_, rest) = text.split_once(&user).expect("the user");
    let own = rest
        .lines()
        .enumerate()
        .take_while(|(at, line)| *at == 0 || line.starts_with(' '));
    // What is in brackets is allowed as well, together and not with the rest.
    let words = own.flat_map(|(_, line)| line.split_whitespace());
    // A key that may only be read is a key.
    words
        .map(|word| {
            word.trim_matches(['(', ')'])
                .trim_start_matches("%R")
                .to_owned()
        })
        .collect()
}

fn beginning_with(rules: &[String], sign: char) -> Names {
    rules
        .iter()
        .filter_map(|rule| rule.strip_prefix(sign).map(str::to_owned))
        .collect()
}

#[test]
fn m5_each_user_has_the_commands_of_its_scripts_and_no_others() {
    let workers: Names = &names(&OF_WORKERS) | &names(&OF_BOTH);
    let gateways: Names = &all_scripts() - &names(&OF_WORKERS);
    assert!(workers.is_subset(&all_scripts()), "a script is gone");
    for (role, scripts, sent) in [
        ("gateway", gateways, &SENT_BY_GATEWAYS[..]),
        ("worker", workers, &[][..]),
    ] {
        let mut needed = calls(&scripts);
        for more in [&SENT_BY_BOTH[..], &SENT_TO_CLUSTERS, sent] {
            needed.extend(names(more));
        }
        let allowed = beginning_with(&rules(role), '+');
        let missing: Vec<_> = needed.difference(&allowed).collect();
        let unused: Vec<_> = allowed.difference(&needed).collect();
        assert!(
            missing.is_empty(),
            "deploy/redis/users.acl: {role} lacks {missing:?}"
        );
        assert!(
            unused.is_empty(),
            "deploy/redis/users.acl: {role} does not need {unused:?}"
        );
    }
}

#[test]
fn m5_every_command_that_code_sends_is_known_here() {
    let mut sent = Names::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../session/src/store/redis");
    let mut files = vec![root];
    while let Some(file) = files.pop() {
        if file.is_dir() {
            let inside = fs::read_dir(&file).expect("the sources");
            files.extend(inside.map(|file| file.expect("a file").path()));
            continue;
        }
        let text = fs::read_to_string(&file).expect("text");
        for before in ["redis::cmd(\"", "self.command(\""] {
            sent.extend(
                after(&text, before, |c| c.is_ascii_uppercase())
                    .iter()
                    .map(|it| it.to_lowercase()),
            );
        }
    }
    let known = [
        &SENT_BY_BOTH[..],
        &SENT_BY_GATEWAYS,
        &SENT_TO_CLUSTERS,
        &BY_CHOICE,
    ];
    let known = known.concat().into_iter();
    let known: Vec<&str> = known.filter_map(|name| name.split('|').next()).collect();
    let unknown: Vec<_> = sent.difference(&names(&known)).cloned().collect();
    assert!(
        sent.len() > 10 && unknown.is_empty(),
        "deploy/redis/users.acl: who may {unknown:?}?"
    );
}

/// The kinds of keys and channels in the lists of keys.rs are those of the rules.
#[test]
fn m5_every_kind_of_key_is_somebodys_and_only_gateways_have_revocations() {
    let lists = project("session/src/store/redis/keys.rs");
    let shapes = after(&lists, "//! - `ns:", |c| c != '`');
    let kind = |shape: &String| {
        shape
            .split('<')
            .next()
            .unwrap_or_default()
            .replace("{tag}", "{???}")
    };
    let shapes: Names = shapes.iter().map(kind).collect();
    // Rules are for beginnings.
    let is_covered = |name: &str| {
        let begins = |other: &String| other != name && other.ends_with(':');
        shapes
            .iter()
            .any(|other| begins(other) && name.starts_with(other.as_str()))
    };
    let documented: Names = shapes
        .iter()
        .filter(|name| !is_covered(name))
        .cloned()
        .collect();
    assert!(documented.len() > 20, "{documented:?}");
    let allowed = |role: &str| -> Names {
        let rules = rules(role);
        let both = &beginning_with(&rules, '~') | &beginning_with(&rules, '&');
        let shape = |rule: &String| {
            rule.trim_start_matches("NAMESPACE:")
                .trim_end_matches('*')
                .to_owned()
        };
        both.iter()
            .map(shape)
            .filter(|shape| !shape.ends_with(":sync:"))
            .collect()
    };
    let (gateway, worker) = (allowed("gateway"), allowed("worker"));
    assert_eq!(&gateway | &worker, documented);
    let of_gateways = [
        "{???}:k:",
        "{???}:x:",
        "{???}:q:",
        "{???}:u:",
        "{???}:y:",
        "{revoked}:all",
        "{revoked}:until",
        "{revoked}:by:",
        "{revoked}:n",
    ];
    assert_eq!(&gateway - &worker, names(&of_gateways));
    assert_eq!(&worker - &gateway, names(&["{agents}:came:"]));
}

#[test]
fn m5_the_chart_has_the_same_rules() {
    assert_eq!(
        project("helm/baton/files/users.acl"),
        project("deploy/redis/users.acl"),
        "copy deploy/redis/users.acl to helm/baton/files"
    );
}
