//! The walk along the branches. The first in the file is the first branch, and lines that were
//! added to the file never change an earlier branch, so a second import finds the same sessions.

use std::collections::VecDeque;
use std::io::{BufRead, Seek};

use baton_protocol::limits::cut_title;
use serde_json::Value;

use super::entries::{self, EntryReader};
use super::index::FileIndex;
use super::scan::NodeClass;
use super::tree::ConversationTree;
use crate::history_writer::{HistoryWriter, Written};
use crate::line::{HistoryFork, HistoryHead};
use crate::tools::first_line;
use crate::{ConversionError, MAX_BRANCHES, SourceTool, updates};

/// A store allows a few more ancestors.
const MAX_DEPTH: usize = 60;
/// Lines that branches may have in common without sharing them, for each line of the file.
const MOST_COPIES: usize = 4;

/// A branch that is to be walked.
struct AwaitedBranch {
    start: u32,
    /// The branch it leaves, and how many turns both have.
    from: Option<(usize, usize)>,
    /// Lines before `start` that it has in common with the other, and does not share.
    copied: Vec<u32>,
}

/// A branch that was written.
struct WrittenBranch {
    key: String,
    from: Option<(usize, usize)>,
    depth: usize,
    ends: Vec<u64>,
}

struct BranchWalk<'a, 'w, R> {
    index: &'a FileIndex,
    tree: &'a ConversationTree,
    reader: EntryReader<'a, R>,
    writer: &'a mut HistoryWriter<'w>,
    awaited: VecDeque<AwaitedBranch>,
    written: Vec<WrittenBranch>,
    copies: usize,
    /// The last line of a branch on the way to where the tool would go on.
    live: Option<u32>,
}

pub fn walk<'w>(
    file: &mut (impl BufRead + Seek),
    index: &FileIndex,
    tree: &ConversationTree,
    writer: &mut HistoryWriter<'w>,
) -> Written {
    let mut live = std::iter::successors(index.leaf(), |node| tree.parent(*node));
    let mut walk = BranchWalk {
        index,
        tree,
        reader: EntryReader::new(file),
        writer,
        awaited: VecDeque::new(),
        written: Vec::new(),
        copies: index.nodes.len() * MOST_COPIES,
        live: live.find(|node| tree.is_heavy(*node)),
    };
    for root in &tree.roots {
        if tree.is_heavy(*root) {
            walk.wait_for(AwaitedBranch {
                start: *root,
                from: None,
                copied: Vec::new(),
            });
        } else {
            let line = index.nodes[*root as usize].line;
            let detail = "with all that hangs on it";
            let report = &mut walk.writer.report;
            match index.nodes[*root as usize].class {
                NodeClass::Silent | NodeClass::System => {}
                _ => report.damage(line.into(), "outside of any conversation", detail),
            }
        }
    }
    while let Some(branch) = walk.awaited.pop_front() {
        walk.branch(branch)?;
    }
    Ok(())
}

impl<R: BufRead + Seek> BranchWalk<'_, '_, R> {
    fn wait_for(&mut self, branch: AwaitedBranch) {
        let line = self.index.nodes[branch.start as usize].line;
        let all = self.awaited.len() + self.written.len();
        if all >= MAX_BRANCHES {
            let detail = format!("{MAX_BRANCHES} are imported");
            self.writer
                .report
                .damage(line.into(), "branch left out", &detail);
            return;
        }
        if branch.copied.len() > self.copies {
            let detail = "too much of it is in others as well";
            self.writer
                .report
                .damage(line.into(), "branch left out", detail);
            return;
        }
        self.copies -= branch.copied.len();
        self.awaited.push_back(branch);
    }

    fn branch(&mut self, branch: AwaitedBranch) -> Written {
        let path = self.path(branch.start);
        let first = self.index.nodes.get(branch.start as usize);
        let sidechain = first.is_some_and(|node| node.sidechain);
        let is_first = self.written.is_empty() && !sidechain;
        let at = self.written.len();
        let depth = branch
            .from
            .map_or(0, |(from, _)| self.written[from].depth + 1);
        let key = if is_first {
            String::new()
        } else {
            self.key(branch.start)?
        };
        let live = self.live.is_some_and(|live| path.contains(&live));
        let fork = branch.from.filter(|(_, turns)| *turns > 0);
        let fork = fork.map(|(from, turns)| HistoryFork {
            branch: self.written[from].key.clone(),
            after: self.end_of(from, turns),
        });
        let whole = branch.copied.iter().chain(&path);
        let updated = whole.map(|node| self.index.nodes[*node as usize].at).max();
        let head = HistoryHead {
            from: SourceTool::Claude,
            source: self.source(),
            branch: key.clone(),
            fork,
            title: self.title(&path, is_first, sidechain)?,
            cwd: self.index.cwd.clone(),
            updated: updated.unwrap_or(0),
            live,
        };
        self.writer.session(&head)?;
        self.written.push(WrittenBranch {
            key,
            from: branch.from,
            depth,
            ends: Vec::new(),
        });
        let told = self.writer.report.parts();
        for node in &branch.copied {
            self.entry(*node)?;
        }
        // They were counted where they came first.
        self.writer.report.set_parts(told);
        let mut turns = branch.from.map_or(0, |(_, turns)| turns);
        turns += self.prompts(&branch.copied);
        for node in &path {
            self.entry(*node)?;
            turns += self.prompts(&[*node]);
            self.leave(*node, at, turns);
        }
        self.written[at].ends = self.writer.end_session()?;
        Ok(())
    }

    /// From here down, always by the first branch.
    fn path(&self, start: u32) -> Vec<u32> {
        let next = |node: &u32| self.tree.branches_at(*node).next();
        std::iter::successors(Some(start), next).collect()
    }

    fn prompts(&self, nodes: &[u32]) -> usize {
        let is_prompt = |node: &&u32| self.index.nodes[**node as usize].class == NodeClass::Prompt;
        nodes.iter().filter(is_prompt).count()
    }

    /// The other branches at a node of this one, which has had so many turns there.
    fn leave(&mut self, node: u32, branch: usize, turns: usize) {
        let starts: Vec<u32> = self.tree.branches_at(node).collect();
        let Some((first, others)) = starts.split_first() else {
            return;
        };
        for start in others {
            let complete = self.begins_turn(*first) && self.begins_turn(*start);
            let shared = if complete {
                turns
            } else {
                turns.saturating_sub(1)
            };
            let deep = self.written[branch].depth + 1 >= MAX_DEPTH;
            let shared = if deep { 0 } else { shared };
            let copied = if complete && shared > 0 {
                Vec::new()
            } else {
                self.lines_to(node, shared == 0)
            };
            self.wait_for(AwaitedBranch {
                start: *start,
                from: (shared > 0).then_some((branch, shared)),
                copied,
            });
        }
    }

    /// A prompt comes next, apart from lines that are not shown.
    fn begins_turn(&self, start: u32) -> bool {
        for node in self.path_from(start) {
            match self.index.nodes[node as usize].class {
                NodeClass::Prompt => return true,
                NodeClass::Silent | NodeClass::System => {}
                _ => return false,
            }
        }
        false
    }

    fn path_from(&self, start: u32) -> impl Iterator<Item = u32> + '_ {
        let next = |node: &u32| self.tree.branches_at(*node).next();
        std::iter::successors(Some(start), next)
    }

    /// The lines up to a node, from the prompt of its turn on or from the beginning.
    fn lines_to(&self, node: u32, from_beginning: bool) -> Vec<u32> {
        let mut lines = Vec::new();
        for node in std::iter::successors(Some(node), |node| self.tree.parent(*node)) {
            lines.push(node);
            let turn_begins = !from_beginning && self.prompts(&[node]) > 0;
            if turn_begins || lines.len() > self.copies {
                break;
            }
        }
        lines.reverse();
        lines
    }

    fn end_of(&self, branch: usize, turn: usize) -> u64 {
        let branch = &self.written[branch];
        match branch.from {
            Some((from, shared)) if turn <= shared => self.end_of(from, turn),
            from => {
                let shared = from.map_or(0, |(_, shared)| shared);
                branch.ends.get(turn - shared - 1).copied().unwrap_or(0)
            }
        }
    }

    fn entry(&mut self, node: u32) -> Written {
        for node in self.tree.with_notes(node) {
            let node = &self.index.nodes[node as usize];
            if node.class == NodeClass::Silent {
                continue;
            }
            let entry = self.reader.read(node)?;
            self.writer.line = node.line.into();
            entries::tell(node.class, &entry, self.writer)?;
        }
        Ok(())
    }

    fn key(&mut self, start: u32) -> Result<String, ConversionError> {
        let node = &self.index.nodes[start as usize];
        let entry = self.reader.read(node)?;
        Ok(match entry["uuid"].as_str() {
            Some(uuid) => updates::name(uuid),
            None => format!("line-{}", node.line),
        })
    }

    fn source(&self) -> String {
        let index = self.index;
        if index.source.is_empty() {
            "unknown".into()
        } else {
            updates::name(&index.source)
        }
    }

    fn title(
        &mut self,
        path: &[u32],
        is_first: bool,
        sidechain: bool,
    ) -> Result<String, ConversionError> {
        let is_prompt = |node: &&u32| self.index.nodes[**node as usize].class == NodeClass::Prompt;
        let begins = match path.iter().find(is_prompt) {
            Some(prompt) => {
                let entry: Value = self.reader.read(&self.index.nodes[*prompt as usize])?;
                first_line(&entries::prompt_text(&entry))
            }
            None => String::new(),
        };
        let title = match (self.index.title().map(first_line), is_first, sidechain) {
            (_, _, true) => format!("Subagent: {begins}"),
            (Some(title), true, _) => title,
            (Some(title), false, _) if !begins.is_empty() => format!("{title} ({begins})"),
            (Some(title), false, _) => title,
            (None, ..) => begins,
        };
        Ok(cut_title(&title).to_owned())
    }
}
