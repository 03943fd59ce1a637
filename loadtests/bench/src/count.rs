//! The directive that drives every target, `/count N [delay=MS] [size=BYTES]`, and the numbered texts it yields.

use std::time::Duration;

use memchr::memmem;

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

    /// The chunk and prompt that a message carries. Reads `chunk k of N, prompt p ....` and nothing else of it.
    pub fn find(&self, message: &[u8]) -> Option<(u32, u64)> {
        let start = memmem::find(message, b"\"text\":\"")? + 8;
        let text = message.get(start..start + self.size)?;
        if message.get(start + self.size) != Some(&b'"') {
            return None;
        }
        let (k, rest) = number(text.strip_prefix(b"chunk ")?)?;
        let (chunks, rest) = number(rest.strip_prefix(b" of ")?)?;
        let (prompt, rest) = number(rest.strip_prefix(b", prompt ")?)?;
        let padded = rest.strip_prefix(b" ")?.iter().all(|byte| *byte == b'.');
        let whole = padded && chunks == u64::from(self.chunks) && (1..=chunks).contains(&k);
        whole.then_some((k as u32, prompt))
    }

    /// How long one answer takes at least.
    pub fn duration(&self) -> Duration {
        self.delay.unwrap_or_default() * self.chunks.saturating_sub(1)
    }
}

fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let value = std::str::from_utf8(&text[..digits]).ok()?.parse().ok()?;
    Some((value, &text[digits..]))
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
    fn texts_are_found_in_messages() {
        let count = Count::parse("/count 20 size=100").unwrap();
        let message = format!(r#"{{"text":"{}"}}"#, count.text(7, 12));
        assert_eq!(count.find(message.as_bytes()), Some((7, 12)));
        assert_eq!(count.find(message.replace("..", ".").as_bytes()), None);
        assert_eq!(
            count.find(message.replace("7 of", "21 of").as_bytes()),
            None
        );
    }

    #[test]
    fn other_text_is_no_directive() {
        assert_eq!(Count::parse("hello"), None);
        assert_eq!(Count::parse("/count many"), None);
        assert_eq!(Count::parse("/count 3 speed=9"), None);
    }
}
