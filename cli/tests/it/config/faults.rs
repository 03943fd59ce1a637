//! A file that cannot be used: every fault with its line, and exit code 64.

use super::{ConfigFile, clean, errors, shown};

const FAULTY: &str = r#"
slotz = 5
auth = "tokens"
[gateway]
listen = 8080
allow-host = []
allow-origin = [443]
insecure = "yes"
limit-streams = -1
[worker]
keys = "/keys"
agent-env = ["A,B"]
[gatewya]
slots = 1
"#;

const FAULTS: [&str; 10] = [
    ":2: slotz: unknown key; did you mean slots?",
    ":3: auth: \"tokens\": must be one of none, keys, jwt",
    ":5: [gateway] listen: expected a string, found an integer; write \"8080\"",
    ":6: [gateway] allow-host: the array is empty",
    ":7: [gateway] allow-origin: expected a string, found an integer; write \"443\"",
    ":8: [gateway] insecure: expected true or false, found a string",
    ":9: [gateway] limit-streams: expected an integer, 0 or more",
    ":11: [worker] keys: worker has no such option; gateway has it",
    ":12: [worker] agent-env: \"A,B\" contains ','",
    ":13: gatewya: unknown section; did you mean gateway?",
];

#[test]
fn all_faults_are_reported_together_by_the_role_and_by_the_check() {
    let file = ConfigFile::new(FAULTY);
    let path = file.path();
    let mut role = clean();
    role.args(["worker", "--config"]).arg(&path);
    let mut check = clean();
    check.args(["config", "check"]).arg(&path);
    for mut command in [role, check] {
        let output = command.output().expect("baton runs");
        assert_eq!(output.status.code(), Some(64));
        let errors = errors(&output);
        for fault in FAULTS {
            let fault = format!("{}{fault}", path.display());
            assert!(errors.contains(&fault), "{fault} is missing in\n{errors}");
        }
        assert_eq!(errors.trim().lines().count(), FAULTS.len(), "{errors}");
    }
}

#[test]
fn a_syntax_error_does_not_hide_other_faults() {
    let file = ConfigFile::new("listen = \nslotz = 1\n");
    let mut command = clean();
    command.args(["serve", "--config"]).arg(file.path());
    let output = command.output().expect("baton runs");
    assert_eq!(output.status.code(), Some(64));
    let errors = errors(&output);
    assert!(errors.contains("baton.toml:1: "), "{errors}");
    assert!(errors.contains("baton.toml:2: slotz"), "{errors}");
    assert_eq!(errors.trim().lines().count(), 2, "{errors}");
}

#[test]
fn a_file_that_does_not_exist_is_named() {
    let mut command = clean();
    command.args(["serve", "--config", "/nowhere/baton.toml"]);
    let output = command.output().expect("baton runs");
    assert_eq!(output.status.code(), Some(64));
    assert!(errors(&output).contains("--config /nowhere/baton.toml: "));
}

#[test]
fn a_value_that_cannot_work_is_reported_with_its_line() {
    let file = ConfigFile::new("store = \"redis://127.0.0.1:1\"\n[worker]\nslots = 0\n");
    let mut role = clean();
    role.args(["worker", "--config"]).arg(file.path());
    let mut check = clean();
    check.args(["config", "check", "--role", "worker"]);
    check.arg(file.path());
    for mut command in [role, check] {
        let output = command.output().expect("baton runs");
        assert_eq!(output.status.code(), Some(64));
        let errors = errors(&output);
        assert!(errors.contains("--slots 0"), "{errors}");
        assert!(errors.contains("baton.toml:3)"), "{errors}");
    }
}

#[test]
fn a_check_for_a_role_wants_its_required_options() {
    let file = ConfigFile::new("store = \"redis://127.0.0.1:1\"\n");
    let mut plain = clean();
    plain.args(["config", "check"]).arg(file.path());
    assert!(plain.status().expect("baton runs").success());
    let mut gateway = clean();
    gateway.args(["config", "check", "--role", "gateway"]);
    let output = gateway.arg(file.path()).output().expect("baton runs");
    assert_eq!(output.status.code(), Some(64));
    assert!(errors(&output).contains("--keys"), "{output:?}");
}

#[test]
fn a_password_is_refused_in_the_file_and_hidden_from_other_sources() {
    let url = "redis://me:verysecret@127.0.0.1:1";
    let file = ConfigFile::new(&format!("store = \"{url}\"\n"));
    let output = file.show("worker").output().expect("baton runs");
    assert_eq!(output.status.code(), Some(64));
    let refused = errors(&output);
    assert!(refused.contains("store-file or the variable BATON_STORE"));
    assert!(!refused.contains("verysecret"), "{refused}");

    let file = ConfigFile::new("store = \"redis://127.0.0.1:1\"\n");
    assert_eq!(
        shown(&mut file.show("worker"))["store"].0,
        "\"redis://127.0.0.1:1\""
    );
    for value in [url, "verysecret", "redis://h/?sentinel_password=verysecret"] {
        let mut command = file.show("worker");
        let output = command.env("BATON_STORE", value).output();
        let output = output.expect("baton runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("# store = (hidden)"), "{text}");
        assert!(!text.contains("verysecret"), "{text}");
    }
}
