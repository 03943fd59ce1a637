//! Two callers for `--auth keys`. Gateways that ask nobody take no notice of what they bring.

use std::path::Path;

use serde_json::json;

pub const ALICE: &str = "bk_alice";
pub const BOB: &str = "bk_bob";

/// The file's path.
pub fn write_keys(dir: &Path) -> String {
    let keys = json!({ "keys": [
        { "principal": "alice", "sha256": "7bd6d6312544a09f10533ab0da699eabce76dac8828a23e8432cf38fc00fd476" },
        { "principal": "bob", "sha256": "f77f371f1d2463517540e5fc379d9a75854592a66d5c0bc5d4200b8890c07d04" },
    ] });
    let path = dir.join("api-keys.json");
    std::fs::write(&path, keys.to_string()).expect("the directory is writable");
    path.display().to_string()
}
