//! Properties that hold for any file. The targets in `fuzz/` check them for as long as they run, and
//! every test run checks them briefly (`tests`).

use std::collections::HashMap;
use std::io::Cursor;

use serde_json::Value;

use crate::line::HistoryLine;
use crate::{ConversionError, SourceTool, convert};

#[cfg(test)]
mod tests;

pub fn claude_file(data: &[u8]) {
    check(SourceTool::Claude, data);
}

pub fn codex_file(data: &[u8]) {
    check(SourceTool::Codex, data);
}

pub fn opencode_file(data: &[u8]) {
    check(SourceTool::Opencode, data);
}

pub fn goose_file(data: &[u8]) {
    check(SourceTool::Goose, data);
}

/// All that is written can be taken in: turns begin and end, and forks are of earlier sessions. The
/// same file gives the same lines.
fn check(tool: SourceTool, data: &[u8]) {
    let Some(lines) = converted(tool, data) else {
        return;
    };
    assert_eq!(converted(tool, data).as_ref(), Some(&lines));
    let mut branches: HashMap<(String, String), Vec<u64>> = HashMap::new();
    let mut current: Option<((String, String), u64, bool)> = None;
    for line in lines
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        let line: HistoryLine<Value> = serde_json::from_slice(line).expect("a line of a history");
        if let HistoryLine::Session(head) = line {
            assert!(
                current.is_none_or(|(_, _, runs)| !runs),
                "a turn has no end"
            );
            let fork = head.fork.as_ref();
            let after = fork.map_or(0, |fork| {
                let ends = &branches[&(head.source.clone(), fork.branch.clone())];
                assert!(
                    ends.contains(&fork.after),
                    "it shares {} of {ends:?}",
                    fork.after
                );
                fork.after
            });
            let name = (head.source, head.branch);
            let shared = fork.map(|fork| branches[&(name.0.clone(), fork.branch.clone())].clone());
            let shared = shared
                .unwrap_or_default()
                .into_iter()
                .filter(|end| *end <= after);
            let known = branches.insert(name.clone(), shared.collect());
            assert!(known.is_none(), "a branch comes twice");
            current = Some((name, after, false));
            continue;
        }
        let (name, seq, runs) = current.as_mut().expect("a session comes first");
        *seq += 1;
        match line {
            HistoryLine::Begin => assert!(!std::mem::replace(runs, true), "two turns"),
            HistoryLine::End(_) => {
                assert!(std::mem::replace(runs, false), "no turn");
                branches.get_mut(name).expect("it is there").push(*seq);
            }
            HistoryLine::User(update) => {
                assert_eq!(update["sessionUpdate"], "user_message_chunk");
            }
            HistoryLine::Update(update) => {
                let kind = update["sessionUpdate"].as_str().expect("a kind");
                assert_ne!(kind, "user_message_chunk");
            }
            HistoryLine::Session(_) => unreachable!(),
        }
    }
    assert!(
        current.is_none_or(|(_, _, runs)| !runs),
        "a turn has no end"
    );
}

fn converted(tool: SourceTool, data: &[u8]) -> Option<Vec<u8>> {
    let mut lines = Vec::new();
    match convert(tool, &mut Cursor::new(data), &mut lines) {
        Ok(report) => {
            assert!(report.notes.len() <= 200);
            Some(lines)
        }
        Err(ConversionError::Unusable(_)) => None,
        Err(fault) => panic!("{fault}"),
    }
}
