//! All lines of a file: where they are, and what they hang on.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{BufRead, Seek, SeekFrom};

use super::scan::{NodeClass, ScannedLine};
use crate::ConversionError;
use crate::file_lines::{FileLine, FileLines, MAX_LINE};
use crate::report::ImportReport;
use crate::times;

/// Lines of the tree: some 100 bytes of memory each.
const MAX_NODES: usize = 1_000_000;

/// The index of a node, or none.
pub type NodeLink = Option<u32>;

pub struct IndexedNode {
    pub class: NodeClass,
    pub sidechain: bool,
    pub line: u32,
    pub offset: u64,
    pub length: u32,
    /// In milliseconds since 1970, or 0.
    pub at: u64,
    /// Of the model's message that it is a part of.
    pub message: u64,
    parent: Option<u64>,
    pub uuid: Option<u64>,
}

#[derive(Default)]
pub struct SessionTitles {
    custom: Option<String>,
    generated: Option<String>,
    summary: Option<(String, Option<u64>)>,
}

pub struct FileIndex {
    pub nodes: Vec<IndexedNode>,
    by_uuid: HashMap<u64, u32>,
    titles: SessionTitles,
    pub source: String,
    pub cwd: String,
    /// The line that the tool would go on from, if it says so.
    leaf: Option<u64>,
    /// Some line was of a kind that is known.
    pub recognized: bool,
    keys: RandomState,
}

impl FileIndex {
    pub fn read(
        file: &mut (impl BufRead + Seek),
        report: &mut ImportReport,
    ) -> Result<Self, ConversionError> {
        let mut index = Self {
            nodes: Vec::new(),
            by_uuid: HashMap::new(),
            titles: SessionTitles::default(),
            source: String::new(),
            cwd: String::new(),
            leaf: None,
            recognized: false,
            keys: RandomState::new(),
        };
        file.seek(SeekFrom::Start(0))
            .map_err(ConversionError::Read)?;
        let mut lines = FileLines::new(file);
        while let Some(line) = lines.next().map_err(ConversionError::Read)? {
            report.lines = line.number;
            if line.too_long {
                let detail = format!("{} bytes, {MAX_LINE} are read", line.length);
                report.damage(line.number, "line too long", &detail);
            } else if !line.text.trim_ascii().is_empty() {
                index.add(&line, report)?;
            }
        }
        Ok(index)
    }

    fn add(
        &mut self,
        line: &FileLine<'_>,
        report: &mut ImportReport,
    ) -> Result<(), ConversionError> {
        let scanned = match line.json::<ScannedLine<'_>>() {
            Ok(scanned) => scanned,
            Err((kind, detail)) => {
                report.damage(line.number, kind, &detail);
                return Ok(());
            }
        };
        let class = scanned.class();
        match class {
            None => report.unknown(line.number, &scanned.counted_as()),
            Some(NodeClass::Silent) => report.leave_out(&scanned.counted_as()),
            Some(_) => {}
        }
        self.recognized |= class.is_some();
        self.remember(&scanned);
        let Some(uuid) = scanned.uuid.as_deref() else {
            let speaks = !matches!(class, None | Some(NodeClass::Silent));
            if speaks {
                report.damage(line.number, "no uuid", "");
                self.push(line, &scanned, class, None)?;
            }
            return Ok(());
        };
        let uuid = self.key(uuid);
        if self.by_uuid.contains_key(&uuid) {
            report.damage(line.number, "uuid twice", "the first line with it counts");
            return Ok(());
        }
        self.by_uuid.insert(uuid, self.nodes.len() as u32);
        self.push(line, &scanned, class, Some(uuid))
    }

    fn push(
        &mut self,
        line: &FileLine<'_>,
        scanned: &ScannedLine<'_>,
        class: Option<NodeClass>,
        uuid: Option<u64>,
    ) -> Result<(), ConversionError> {
        if self.nodes.len() == MAX_NODES {
            let why = format!(
                "line {}: a file may have {MAX_NODES} such lines",
                line.number
            );
            return Err(ConversionError::Unusable(why));
        }
        // After a boundary the tree begins anew; it is the same conversation.
        let parent = scanned.parent_uuid.as_deref();
        let parent = parent.or(scanned.logical_parent_uuid.as_deref());
        self.nodes.push(IndexedNode {
            class: class.unwrap_or(NodeClass::Silent),
            sidechain: scanned.is_sidechain,
            line: line.number.try_into().unwrap_or(u32::MAX),
            offset: line.offset,
            length: line.length as u32,
            at: times::millis(scanned.timestamp.as_deref().unwrap_or_default()),
            message: scanned.message_id().map_or(0, |id| self.key(id)),
            parent: parent.map(|parent| self.key(parent)),
            uuid,
        });
        Ok(())
    }

    fn remember(&mut self, line: &ScannedLine<'_>) {
        let text = |text: &Option<std::borrow::Cow<'_, str>>| text.as_deref().map(str::to_owned);
        // Lines that were taken over from another session have its id, and come first.
        if let (Some(session), true) = (&line.session_id, line.uuid.is_some()) {
            self.source = session.to_string();
        }
        if self.cwd.is_empty()
            && let Some(cwd) = &line.cwd
        {
            self.cwd = cwd.to_string();
        }
        let leaf = line.leaf_uuid.as_deref().map(|leaf| self.key(leaf));
        match &*line.kind {
            "custom-title" => self.titles.custom = text(&line.custom_title),
            "ai-title" => self.titles.generated = text(&line.ai_title),
            "summary" => self.titles.summary = text(&line.summary).map(|text| (text, leaf)),
            "last-prompt" => self.leaf = leaf.or(self.leaf),
            _ => {}
        }
    }

    /// The title, unless it is another session's.
    pub fn title(&self) -> Option<&str> {
        let of_this = |leaf: &Option<u64>| leaf.is_none_or(|leaf| self.by_uuid.contains_key(&leaf));
        let summary = self.titles.summary.as_ref();
        let summary = summary.filter(|(_, leaf)| of_this(leaf));
        let titles = &self.titles;
        let title = titles.custom.as_deref().or(titles.generated.as_deref());
        title.or(summary.map(|(text, _)| text.as_str()))
    }

    /// The node that the tool would go on from.
    pub fn leaf(&self) -> NodeLink {
        let pinned = self.leaf.and_then(|leaf| self.by_uuid.get(&leaf).copied());
        let speaks = |node: &IndexedNode| {
            !node.sidechain && matches!(node.class, NodeClass::Prompt | NodeClass::Assistant)
        };
        let last = || self.nodes.iter().rposition(speaks).map(|at| at as u32);
        pinned.or_else(last)
    }

    /// The parent that a node names: `Err` if there is none such in the file.
    pub fn parent(&self, node: u32) -> Result<NodeLink, ()> {
        let parent = self.nodes[node as usize].parent;
        let found = parent.map(|parent| self.by_uuid.get(&parent).copied().ok_or(()));
        found.transpose()
    }

    fn key(&self, text: &str) -> u64 {
        self.keys.hash_one(text)
    }
}
