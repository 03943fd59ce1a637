//! The conversation as a tree. Not every fork of lines is one of the conversation: calls of tools
//! in parallel, notes of hooks and the like hang beside the branch and belong to it. A branch has
//! words of its own.

use super::index::{FileIndex, NodeLink};
use super::scan::NodeClass;
use crate::report::ImportReport;

pub struct ConversationTree {
    parents: Vec<NodeLink>,
    first_children: Vec<NodeLink>,
    next_siblings: Vec<NodeLink>,
    /// It, or something below it, says something new.
    heavy: Vec<bool>,
    pub roots: Vec<u32>,
}

impl ConversationTree {
    pub fn grow(index: &FileIndex, report: &mut ImportReport) -> Self {
        let count = index.nodes.len();
        let mut tree = Self {
            parents: parents(index, report),
            first_children: vec![None; count],
            next_siblings: vec![None; count],
            heavy: vec![false; count],
            roots: Vec::new(),
        };
        let order = tree.ordered(index, report);
        tree.weigh(index, &order);
        tree
    }

    /// From the roots down. Circles are cut open.
    fn ordered(&mut self, index: &FileIndex, report: &mut ImportReport) -> Vec<u32> {
        let count = self.parents.len() as u32;
        // The last comes first, so that each list begins with the first.
        for node in (0..count).rev() {
            self.hang(node);
        }
        self.roots.reverse();
        let mut order = Vec::with_capacity(count as usize);
        let mut seen = vec![false; count as usize];
        for at in 0..self.roots.len() {
            self.visit(self.roots[at], &mut order, &mut seen);
        }
        for node in 0..count {
            if seen[node as usize] {
                continue;
            }
            let line = index.nodes[node as usize].line;
            report.damage(line.into(), "circle of parents", "cut open at this line");
            self.unhang(node);
            self.roots.push(node);
            self.visit(node, &mut order, &mut seen);
        }
        order
    }

    fn hang(&mut self, node: u32) {
        match self.parents[node as usize] {
            None => self.roots.push(node),
            Some(parent) => {
                self.next_siblings[node as usize] = self.first_children[parent as usize];
                self.first_children[parent as usize] = Some(node);
            }
        }
    }

    fn unhang(&mut self, node: u32) {
        let Some(parent) = self.parents[node as usize].take() else {
            return;
        };
        let next = self.next_siblings[node as usize].take();
        let mut link = self.first_children[parent as usize];
        if link == Some(node) {
            self.first_children[parent as usize] = next;
            return;
        }
        while let Some(sibling) = link {
            link = self.next_siblings[sibling as usize];
            if link == Some(node) {
                self.next_siblings[sibling as usize] = next;
                return;
            }
        }
    }

    fn visit(&self, root: u32, order: &mut Vec<u32>, seen: &mut [bool]) {
        let mut done = order.len();
        order.push(root);
        seen[root as usize] = true;
        while let Some(node) = order.get(done).copied() {
            done += 1;
            for child in self.children(node) {
                if !std::mem::replace(&mut seen[child as usize], true) {
                    order.push(child);
                }
            }
        }
    }

    fn weigh(&mut self, index: &FileIndex, order: &[u32]) {
        // The message of the model that was last heard on the way to a node.
        let mut heard = vec![0; order.len()];
        for node in order {
            let at = *node as usize;
            let before = self.parents[at].map_or(0, |parent| heard[parent as usize]);
            let line = &index.nodes[at];
            let says = line.class == NodeClass::Assistant;
            heard[at] = if says { line.message } else { before };
            let new = says && (line.message == 0 || line.message != before);
            self.heavy[at] = new || line.class == NodeClass::Prompt;
        }
        for node in order.iter().rev() {
            if let (true, Some(parent)) = (self.heavy[*node as usize], self.parent(*node)) {
                self.heavy[parent as usize] = true;
            }
        }
    }

    pub fn parent(&self, node: u32) -> NodeLink {
        self.parents[node as usize]
    }

    pub fn is_heavy(&self, node: u32) -> bool {
        self.heavy[node as usize]
    }

    pub fn children(&self, node: u32) -> impl Iterator<Item = u32> + '_ {
        let first = self.first_children[node as usize];
        std::iter::successors(first, |child| self.next_siblings[*child as usize])
    }

    pub fn branches_at(&self, node: u32) -> impl Iterator<Item = u32> + '_ {
        self.children(node).filter(|child| self.is_heavy(*child))
    }

    /// A node and everything beside the branch that hangs on it, in the file's order.
    pub fn with_notes(&self, node: u32) -> Vec<u32> {
        let mut notes = vec![node];
        let mut done = 0;
        while let Some(node) = notes.get(done).copied() {
            notes.extend(self.children(node).filter(|child| !self.is_heavy(*child)));
            done += 1;
        }
        notes[1..].sort_unstable();
        notes
    }
}

fn parents(index: &FileIndex, report: &mut ImportReport) -> Vec<NodeLink> {
    // The last line of the conversation, and of the subagents.
    let mut last: [NodeLink; 2] = [None, None];
    let mut parents = Vec::with_capacity(index.nodes.len());
    for (at, node) in index.nodes.iter().enumerate() {
        let side = usize::from(node.sidechain);
        let parent = match index.parent(at as u32) {
            Ok(parent) => parent.filter(|parent| {
                // A subagent's conversation is its own.
                index.nodes[*parent as usize].sidechain == node.sidechain
            }),
            Err(()) => {
                let detail = "it is taken to follow the line before it";
                report.damage(node.line.into(), "parent is missing", detail);
                last[side]
            }
        };
        // A line without an id begins nothing.
        parents.push(if node.uuid.is_none() {
            parent.or(last[side])
        } else {
            parent
        });
        last[side] = Some(at as u32);
    }
    parents
}
