//! Patches as Codex writes them, as diffs.

use serde_json::{Value, json};

const BEGIN: &str = "*** Begin Patch";

/// The diffs of a call that applies a patch, by its own tool or in a shell.
pub fn of_call(tool: &str, input: &Value) -> Option<Vec<Value>> {
    let text = match input {
        Value::String(text) => text.as_str(),
        _ if tool == "apply_patch" => input["input"].as_str().or(input["patch"].as_str())?,
        _ => input["command"]
            .as_array()?
            .iter()
            .filter_map(Value::as_str)
            .next_back()?,
    };
    let (_, patch) = text.split_once(BEGIN)?;
    let diffs = diffs(patch);
    (!diffs.is_empty()).then_some(diffs)
}

struct FilePatch<'a> {
    path: &'a str,
    added: bool,
    old: Vec<&'a str>,
    new: Vec<&'a str>,
}

fn diffs(patch: &str) -> Vec<Value> {
    let mut files: Vec<FilePatch<'_>> = Vec::new();
    for line in patch.lines() {
        if line.starts_with("*** End Patch") {
            break;
        }
        let heads = ["*** Update File: ", "*** Add File: ", "*** Delete File: "];
        if let Some(path) = heads.iter().find_map(|head| line.strip_prefix(head)) {
            files.push(FilePatch {
                path,
                added: line.starts_with("*** Add"),
                old: Vec::new(),
                new: Vec::new(),
            });
            continue;
        }
        let Some(file) = files.last_mut() else {
            continue;
        };
        match line.as_bytes().first() {
            Some(b'+') => file.new.push(&line[1..]),
            Some(b'-') => file.old.push(&line[1..]),
            Some(b' ') => {
                file.old.push(&line[1..]);
                file.new.push(&line[1..]);
            }
            _ => {}
        }
    }
    let diffs = files.into_iter().map(|file| {
        let old = (!file.added).then(|| file.old.join("\n"));
        let new = file.new.join("\n");
        json!({ "type": "diff", "path": file.path, "oldText": old, "newText": new })
    });
    diffs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_is_a_diff_for_each_file() {
        let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n same\n-old\n+new\n\
            *** Add File: b.txt\n+whole\n*** Delete File: c.txt\n*** End Patch\nrest";
        let found = of_call("apply_patch", &json!(patch)).unwrap();
        let expected = [
            json!({ "type": "diff", "path": "a.txt", "oldText": "same\nold", "newText": "same\nnew" }),
            json!({ "type": "diff", "path": "b.txt", "oldText": null, "newText": "whole" }),
            json!({ "type": "diff", "path": "c.txt", "oldText": "", "newText": "" }),
        ];
        assert_eq!(found, expected);
        let command = json!({ "command": ["apply_patch", patch] });
        assert_eq!(of_call("shell", &command).unwrap().len(), 3);
        assert_eq!(of_call("shell", &json!({ "command": ["ls", "-l"] })), None);
        assert_eq!(of_call("apply_patch", &json!({})), None);
    }
}
