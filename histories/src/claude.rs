//! Session files of Claude Code: `~/.claude/projects/…/ID.jsonl`. A line is a node of a tree, whose
//! order is not that of the file. The first pass notes where each line is and what it hangs on; the
//! second walks the branches and reads the lines again.
//!
//! | module | content |
//! |---|---|
//! | `scan` | one line, as much of it as the tree needs |
//! | `index` | all lines of a file: nodes, titles, damage |
//! | `tree` | parents and children, what is a branch of its own and what is not |
//! | `branches` | the walk: a session for each branch |
//! | `entries` | one line as events |

use std::io::{BufRead, Seek};

use crate::ConversionError;
use crate::history_writer::{HistoryWriter, Written};

mod branches;
mod entries;
mod index;
mod scan;
mod tree;

pub(crate) fn convert(file: &mut (impl BufRead + Seek), writer: &mut HistoryWriter<'_>) -> Written {
    let index = index::FileIndex::read(file, &mut writer.report)?;
    if index.nodes.is_empty() {
        if index.recognized {
            return Ok(());
        }
        let why = "this is no session file of Claude Code: no line of it is known";
        return Err(ConversionError::Unusable(why.into()));
    }
    let tree = tree::ConversationTree::grow(&index, &mut writer.report);
    branches::walk(file, &index, &tree, writer)
}
