//! One output item while it is said, and the events that tell it. Texts stay as they are written in
//! the log, as the inside of a JSON string: nothing is decoded and encoded again.

use std::fmt::Write as _;

use bytes::BytesMut;

use super::name::ResponseName;

/// Events of a stream, numbered from 0.
pub struct EventSink {
    pub out: BytesMut,
    next: u64,
    /// Those up to this number were seen before.
    after: Option<u64>,
    /// They are wanted at all.
    wanted: bool,
}

impl EventSink {
    pub fn new(wanted: bool, after: Option<u64>) -> Self {
        Self {
            out: BytesMut::new(),
            next: 0,
            after,
            wanted,
        }
    }

    /// `rest` writes the fields after the number, each with a comma before it.
    pub fn event(&mut self, kind: &str, rest: impl FnOnce(&mut BytesMut)) {
        let number = self.next;
        self.next += 1;
        if !self.is_open() || self.after.is_some_and(|after| number <= after) {
            return;
        }
        let out = &mut self.out;
        for part in ["event: ", kind, "\ndata: {\"type\":\"", kind, "\""] {
            out.extend_from_slice(part.as_bytes());
        }
        write!(out, ",\"sequence_number\":{number}").expect("a buffer grows");
        rest(out);
        out.extend_from_slice(b"}\n\n");
    }

    pub fn done(&mut self) {
        if self.is_open() {
            self.out.extend_from_slice(b"data: [DONE]\n\n");
        }
    }

    pub fn is_open(&self) -> bool {
        self.wanted
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemKind {
    Message,
    Refusal,
    Reasoning,
}

/// The names of an item's parts.
struct ItemForm {
    prefix: &'static str,
    /// Of its part: the type, and the field with the text.
    part: (&'static str, &'static str),
    /// The rest of a part, behind the text.
    rest: &'static str,
    /// The field that counts parts.
    index: &'static str,
    added: &'static str,
    delta: &'static str,
    done: &'static str,
    part_done: &'static str,
    /// Of the events with text.
    text_rest: &'static str,
}

const MESSAGE: ItemForm = ItemForm {
    prefix: "msg",
    part: ("output_text", "text"),
    rest: ",\"annotations\":[],\"logprobs\":[]",
    index: "content_index",
    added: "response.content_part.added",
    delta: "response.output_text.delta",
    done: "response.output_text.done",
    part_done: "response.content_part.done",
    text_rest: ",\"logprobs\":[]",
};

const REFUSAL: ItemForm = ItemForm {
    part: ("refusal", "refusal"),
    rest: "",
    delta: "response.refusal.delta",
    done: "response.refusal.done",
    text_rest: "",
    ..MESSAGE
};

const REASONING: ItemForm = ItemForm {
    prefix: "rs",
    part: ("summary_text", "text"),
    rest: "",
    index: "summary_index",
    added: "response.reasoning_summary_part.added",
    delta: "response.reasoning_summary_text.delta",
    done: "response.reasoning_summary_text.done",
    part_done: "response.reasoning_summary_part.done",
    text_rest: "",
};

impl ItemKind {
    fn form(self) -> &'static ItemForm {
        match self {
            Self::Message => &MESSAGE,
            Self::Refusal => &REFUSAL,
            Self::Reasoning => &REASONING,
        }
    }
}

pub struct OutputItem {
    pub kind: ItemKind,
    /// The agent's name for the message.
    pub message: Option<Box<str>>,
    id: String,
    index: u32,
    /// Of each event about its part.
    place: String,
    text: Vec<u8>,
}

impl OutputItem {
    /// Begins one.
    pub fn begin(
        kind: ItemKind,
        message: Option<Box<str>>,
        name: &ResponseName,
        index: u32,
        sink: &mut EventSink,
    ) -> Self {
        let form = kind.form();
        let id = name.item(form.prefix, index);
        let part = form.index;
        let place = format!(",\"item_id\":\"{id}\",\"output_index\":{index},\"{part}\":0");
        let item = Self {
            kind,
            message,
            id,
            index,
            place,
            text: Vec::new(),
        };
        sink.event("response.output_item.added", |out| {
            item.write_item(out, "in_progress", false);
        });
        sink.event(form.added, |out| item.write_part(out));
        item
    }

    /// The inside of a JSON string. `kept`: it will be there in the end, too.
    pub fn say(&mut self, text: &[u8], kept: bool, sink: &mut EventSink) {
        let form = self.kind.form();
        sink.event(form.delta, |out| {
            out.extend_from_slice(self.place.as_bytes());
            out.extend_from_slice(b",\"delta\":\"");
            out.extend_from_slice(text);
            out.extend_from_slice(b"\"");
            out.extend_from_slice(form.text_rest.as_bytes());
        });
        if kept {
            self.text.extend_from_slice(text);
        }
    }

    /// Ends it, and adds it to the others.
    pub fn end(self, status: &str, sink: &mut EventSink, items: &mut BytesMut) {
        let form = self.kind.form();
        sink.event(form.done, |out| {
            out.extend_from_slice(self.place.as_bytes());
            let field = form.part.1;
            write!(out, ",\"{field}\":\"").expect("a buffer grows");
            out.extend_from_slice(&self.text);
            out.extend_from_slice(b"\"");
            out.extend_from_slice(form.text_rest.as_bytes());
        });
        sink.event(form.part_done, |out| self.write_part(out));
        sink.event("response.output_item.done", |out| {
            self.write_item(out, status, true);
        });
        self.add_to(items, status);
    }

    /// As it is now.
    pub fn add_to(&self, items: &mut BytesMut, status: &str) {
        if !items.is_empty() {
            items.extend_from_slice(b",");
        }
        self.write_object(items, status, true);
    }

    fn write_part(&self, out: &mut BytesMut) {
        out.extend_from_slice(self.place.as_bytes());
        out.extend_from_slice(b",\"part\":");
        self.write_content(out);
    }

    fn write_item(&self, out: &mut BytesMut, status: &str, whole: bool) {
        write!(out, ",\"output_index\":{},\"item\":", self.index).expect("a buffer grows");
        self.write_object(out, status, whole);
    }

    fn write_object(&self, out: &mut BytesMut, status: &str, whole: bool) {
        let id = &self.id;
        let written = match self.kind {
            ItemKind::Reasoning => {
                write!(
                    out,
                    "{{\"type\":\"reasoning\",\"id\":\"{id}\",\"summary\":["
                )
            }
            ItemKind::Message | ItemKind::Refusal => write!(
                out,
                "{{\"type\":\"message\",\"id\":\"{id}\",\"status\":\"{status}\",\
                 \"role\":\"assistant\",\"content\":["
            ),
        };
        written.expect("a buffer grows");
        if whole {
            self.write_content(out);
        }
        out.extend_from_slice(b"]}");
    }

    fn write_content(&self, out: &mut BytesMut) {
        let form = self.kind.form();
        let (kind, field) = form.part;
        write!(out, "{{\"type\":\"{kind}\",\"{field}\":\"").expect("a buffer grows");
        out.extend_from_slice(&self.text);
        out.extend_from_slice(b"\"");
        out.extend_from_slice(form.rest.as_bytes());
        out.extend_from_slice(b"}");
    }
}
