//! Where other tools keep their conversations.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use baton_histories::SourceTool;

/// Folders within folders, so far.
const MAX_DEPTH: usize = 8;

/// The folder in which a tool keeps its files.
pub fn folder(tool: SourceTool) -> anyhow::Result<PathBuf> {
    let (variable, below_home, inside) = match tool {
        SourceTool::Claude => ("CLAUDE_CONFIG_DIR", ".claude", "projects"),
        SourceTool::Codex => ("CODEX_HOME", ".codex", "sessions"),
        SourceTool::Opencode | SourceTool::Goose => {
            let name = tool.name();
            return Err(anyhow!(
                "name files that `{name}` has exported: it keeps no files to scan"
            ));
        }
    };
    let base = match std::env::var_os(variable).filter(|value| !value.is_empty()) {
        Some(folder) => PathBuf::from(folder),
        None => std::env::home_dir()
            .ok_or_else(|| anyhow!("there is no home directory: name files"))?
            .join(below_home),
    };
    Ok(base.join(inside))
}

/// The files of a tool among these and in these folders, each once. What Claude Code keeps of
/// subagents comes after the conversation that they were in.
pub fn files(tool: SourceTool, wanted: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in wanted {
        let kind = fs::metadata(path).with_context(|| path.display().to_string())?;
        if kind.is_dir() {
            within(tool, path, MAX_DEPTH, &mut found)?;
        } else {
            found.push(path.clone());
            let subagents = path.with_extension("").join("subagents");
            if tool == SourceTool::Claude && subagents.is_dir() {
                within(tool, &subagents, MAX_DEPTH, &mut found)?;
            }
        }
    }
    let mut seen = std::collections::HashSet::new();
    found.retain(|path| seen.insert(path.clone()));
    Ok(found)
}

/// Links are not followed: they may lead in circles.
fn within(
    tool: SourceTool,
    folder: &Path,
    depth: usize,
    found: &mut Vec<PathBuf>,
) -> anyhow::Result<()> {
    if depth == 0 {
        return Ok(());
    }
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut entries: Vec<fs::DirEntry> = entries.collect::<Result<_, _>>()?;
    // A conversation before the folder that is named for it.
    entries.sort_by_key(|entry| (entry.path().with_extension(""), entry.path().is_dir()));
    for entry in entries {
        let kind = entry.file_type()?;
        if kind.is_dir() {
            within(tool, &entry.path(), depth - 1, found)?;
        } else if kind.is_file() && is_of(tool, &entry.path()) {
            found.push(entry.path());
        }
    }
    Ok(())
}

fn is_of(tool: SourceTool, path: &Path) -> bool {
    let ends = |extension: &str| path.extension().is_some_and(|it| it == extension);
    match tool {
        SourceTool::Claude | SourceTool::Codex => ends("jsonl"),
        SourceTool::Opencode | SourceTool::Goose => ends("json"),
    }
}
