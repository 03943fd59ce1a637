//! Where in a trace something happened, as it travels with commands and answers. Spans go through
//! `tracing` under a target of their own, which logs leave out; unless the process exports traces,
//! nobody listens to it and no span is ever made.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use opentelemetry::global::get_text_map_propagator;
use opentelemetry::propagation::{Extractor, Injector};
use opentelemetry::trace::TraceContextExt as _;
use opentelemetry::{Context, trace::SpanContext};
use tracing::{Level, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// All spans have it, and nothing else does.
pub const TARGET: &str = "baton_trace";

/// The length of `tracestate` that W3C wants passed on; a longer one is dropped.
const MAX_STATE: usize = 512;

/// W3C's `traceparent` and, if there is one, a space and `tracestate`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext(Arc<str>);

impl TraceContext {
    /// As a client or a balancer says it. `None` if it means nothing, or no traces are made here.
    pub fn read(parent: &str, state: &str) -> Option<Self> {
        let plain = |text: &str| text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        let state = if state.len() <= MAX_STATE && plain(state) {
            state
        } else {
            ""
        };
        let carrier = TraceCarrier {
            parent: parent.into(),
            state: state.into(),
        };
        let context = carrier.context();
        Self::write(context.span().span_context())
    }

    /// The place of a span, for what comes of it elsewhere. `None` unless it is recorded.
    pub fn of(span: &Span) -> Option<Self> {
        if span.is_none() {
            return None;
        }
        let context = span.context();
        let span = context.span();
        let place = span.span_context();
        place.is_sampled().then(|| Self::write(place)).flatten()
    }

    /// The span is a part of this trace. It must not have begun; what has is linked instead.
    pub fn adopt(&self, span: &Span) {
        if span.set_parent(self.context()).is_err() {
            self.link(span);
        }
    }

    pub fn link(&self, span: &Span) {
        span.add_link(self.context().span().span_context().clone());
    }

    /// Whether the process that began the trace records it.
    pub fn is_recorded(&self) -> bool {
        self.place().is_some()
    }

    /// The ids of trace and span, if they are recorded: what others can look it up by.
    pub fn place(&self) -> Option<(&str, &str)> {
        let parent = self.0.split(' ').next()?;
        let mut parts = parent.split('-').skip(1);
        let (trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?);
        let flags = u8::from_str_radix(flags, 16).ok()?;
        let is_id = |text: &str, digits| {
            text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        (flags & 1 == 1 && is_id(trace, 32) && is_id(span, 16)).then_some((trace, span))
    }

    /// The trace's own id, if it is recorded.
    pub fn id(&self) -> Option<&str> {
        self.place().map(|(trace, _)| trace)
    }

    /// As it is stored.
    pub(crate) fn from_text(text: &str) -> Self {
        Self(text.into())
    }

    fn write(place: &SpanContext) -> Option<Self> {
        let mut carrier = TraceCarrier::default();
        let context = Context::new().with_remote_span_context(place.clone());
        get_text_map_propagator(|format| format.inject_context(&context, &mut carrier));
        let TraceCarrier { parent, state } = carrier;
        let text = format!("{parent} {state}");
        (!parent.is_empty()).then(|| Self(text.trim_end().into()))
    }

    fn context(&self) -> Context {
        let (parent, state) = self.0.split_once(' ').unwrap_or((&self.0, ""));
        let carrier = TraceCarrier {
            parent: parent.into(),
            state: state.into(),
        };
        carrier.context()
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A step on the store, in whatever is traced already. Only for those who want to see as much as
/// that.
pub(crate) fn step(name: &'static str) -> Span {
    if !tracing::enabled!(target: TARGET, Level::TRACE) || Span::current().is_none() {
        return Span::none();
    }
    tracing::trace_span!(
        target: TARGET,
        "store",
        otel.name = format!("store.{name}"),
        otel.kind = "client",
        db.system.name = "redis",
        db.operation.name = name,
    )
}

#[derive(Default)]
struct TraceCarrier<'a> {
    parent: Cow<'a, str>,
    state: Cow<'a, str>,
}

const PARENT: &str = "traceparent";
const STATE: &str = "tracestate";

impl TraceCarrier<'_> {
    fn context(&self) -> Context {
        get_text_map_propagator(|format| format.extract_with_context(&Context::new(), self))
    }
}

impl Extractor for TraceCarrier<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            PARENT => Some(&self.parent),
            STATE => Some(&self.state)
                .filter(|state| !state.is_empty())
                .map(|state| &**state),
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec![PARENT, STATE]
    }
}

impl Injector for TraceCarrier<'_> {
    fn set(&mut self, key: &str, value: String) {
        match key {
            PARENT => self.parent = value.into(),
            STATE => self.state = value.into(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_exporter_there_are_no_traces() {
        let read = TraceContext::read(
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "",
        );
        assert_eq!(read, None);
        assert_eq!(TraceContext::of(&Span::current()), None);
        assert!(step("append").is_none());
    }
}
