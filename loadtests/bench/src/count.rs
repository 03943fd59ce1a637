//! The directive that drives every target, `/count N [delay=MS] [size=BYTES]`, and the numbered texts it yields.

use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Count {
    pub chunks: u32,
    pub delay: Option<Duration>,
    pub size: usize,
}

impl Count {
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix("/count ")?.split_whitespace();
        let mut count = Count {
            chunks: words.next()?.parse().ok()?,
            delay: None,
            size: 0,
        };
        for word in words {
            match word.split_once('=')? {
                ("delay", ms) => count.delay = Some(Duration::from_millis(ms.parse().ok()?)),
                ("size", bytes) => count.size = bytes.parse().ok()?,
                _ => return None,
            }
        }
        Some(count)
    }

    /// What a client sends to get this.
    pub fn directive(&self) -> String {
        let delay = self
            .delay
            .map(|delay| format!(" delay={}", delay.as_millis()));
        let (chunks, size) = (self.chunks, self.size);
        format!("/count {chunks}{} size={size}", delay.unwrap_or_default())
    }

    /// The text of chunk `k`, padded with dots to `size` bytes.
    pub fn text(&self, k: u32, prompt: u64) -> String {
        let mut text = format!("chunk {k} of {}, prompt {prompt} ", self.chunks);
        while text.len() < self.size {
            text.push('.');
        }
        text
    }

    /// How long one answer takes at least.
    pub fn duration(&self) -> Duration {
        self.delay.unwrap_or_default() * self.chunks.saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directive_reads_back_as_itself() {
        for delay in [None, Some(Duration::from_millis(20))] {
            let count = Count {
                chunks: 20,
                delay,
                size: 100,
            };
            assert_eq!(Count::parse(&count.directive()), Some(count));
        }
    }

    #[test]
    fn texts_are_numbered_and_padded() {
        let text = Count::parse("/count 20 size=100").unwrap().text(7, 12);
        assert!(text.starts_with("chunk 7 of 20, prompt 12 ..."));
        assert_eq!(text.len(), 100);
    }

    #[test]
    fn other_text_is_no_directive() {
        assert_eq!(Count::parse("hello"), None);
        assert_eq!(Count::parse("/count many"), None);
        assert_eq!(Count::parse("/count 3 speed=9"), None);
    }
}
