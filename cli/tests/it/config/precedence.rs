//! A flag takes precedence over a variable, a variable over the file, the file over the default.

use super::{ConfigFile, shown};

fn pair(value: &str, source: &str) -> (String, String) {
    (value.to_owned(), source.to_owned())
}

#[test]
fn each_source_takes_precedence_over_the_next() {
    let file = ConfigFile::new(
        "slots = 1\nlease-ms = 1001\nsession-ttl = \"1d\"\nagent-warm = 2\n[worker]\nagent-warm = \
         3\n",
    );
    let shown = shown(
        file.show("worker")
            .args(["--slots", "7"])
            .env("BATON_SLOTS", "6")
            .env("BATON_LEASE_MS", "1002"),
    );
    assert_eq!(shown["slots"], pair("7", "flag"));
    assert_eq!(
        shown["lease-ms"],
        pair("1002", "environment, BATON_LEASE_MS")
    );
    assert_eq!(shown["session-ttl"], pair("\"1d\"", "file, line 3"));
    assert_eq!(shown["agent-warm"], pair("3", "file, line 6"));
    assert_eq!(shown["namespace"], pair("\"baton\"", "default"));
    assert_eq!(shown["probe-listen"], pair("", "not set"));
}

#[test]
fn the_file_can_be_named_by_a_variable() {
    let file = ConfigFile::new("[serve]\nlisten = \"127.0.0.1:1\"\n");
    let mut command = super::clean();
    command
        .args(["config", "show", "serve"])
        .env("BATON_CONFIG", file.path());
    let shown = shown(&mut command);
    assert_eq!(shown["listen"], pair("\"127.0.0.1:1\"", "file, line 2"));
}

#[test]
fn a_flag_switches_off_an_option_of_the_file() {
    let file = ConfigFile::new("[serve]\ninsecure = true\n");
    assert_eq!(
        shown(&mut file.show("serve"))["insecure"],
        pair("true", "file, line 2")
    );
    let off = shown(file.show("serve").arg("--insecure=false"));
    assert_eq!(off["insecure"], pair("false", "flag"));
    let on = shown(file.show("serve").arg("--insecure"));
    assert_eq!(on["insecure"], pair("true", "flag"));
    let off = shown(file.show("serve").env("BATON_INSECURE", "no"));
    assert_eq!(
        off["insecure"],
        pair("false", "environment, BATON_INSECURE")
    );
}

#[test]
fn a_list_is_replaced_and_never_merged() {
    let file = ConfigFile::new("allow-host = [\"a.example\", \"b.example\"]\n");
    let value = pair("[\"a.example\", \"b.example\"]", "file, line 1");
    assert_eq!(shown(&mut file.show("gateway"))["allow-host"], value);
    let flag = shown(file.show("gateway").args(["--allow-host", "c.example"]));
    assert_eq!(flag["allow-host"], pair("[\"c.example\"]", "flag"));
}

#[test]
fn a_file_for_the_store_replaces_its_url_in_the_configuration() {
    let file = ConfigFile::new("store = \"redis://127.0.0.1:1\"\n");
    let shown = shown(file.show("worker").args(["--store-file", "/run/url"]));
    assert_eq!(shown["store"], pair("", "not set"));
    assert_eq!(shown["store-file"], pair("\"/run/url\"", "flag"));
}

#[test]
fn the_output_is_a_configuration_file() {
    let file =
        ConfigFile::new("allow-origin = [\"https://a.example\"]\nagent = 'stdio:\"a b\" \\ c'\n");
    let output = file.show("serve").output().expect("baton runs");
    let text = String::from_utf8(output.stdout).expect("text");
    let again = ConfigFile::new(&text);
    let values = |shown: std::collections::BTreeMap<String, (String, String)>| {
        let values = shown.into_iter().map(|(name, (value, _))| (name, value));
        values.collect::<Vec<_>>()
    };
    assert_eq!(
        values(shown(&mut again.show("serve"))),
        values(shown(&mut file.show("serve")))
    );
}
