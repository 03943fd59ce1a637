//! Takes members out of a JSON text, and leaves every other byte as it was. One pass, however deep
//! it is nested: `_meta` may be in every object of the protocol, and agents read those of content,
//! too.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::AgentPolicy;

const META: &str = "_meta";

pub(super) struct MemberFilter<'a> {
    pub policy: &'a AgentPolicy,
    /// The members that the outermost object may have, beside `_meta`; any if there is no list.
    pub fields: Option<&'static [&'static str]>,
    /// Only the outermost object is ACP's; what is in it is another protocol's.
    pub shallow: bool,
}

impl MemberFilter<'_> {
    /// Fails if the text is nested too deep to be looked at.
    pub fn pass(&self, value: &RawValue) -> serde_json::Result<Box<RawValue>> {
        let text = value.get();
        // A name may be written with escapes.
        let has_meta = text.contains(META) || text.contains("\\u");
        if !has_meta && self.fields.is_none() {
            return Ok(value.to_owned());
        }
        let mut cuts = Vec::new();
        let outermost = FilterWalk {
            sieve: self,
            text,
            cuts: &mut cuts,
            fields: self.fields,
            deeper: has_meta && !self.shallow,
        };
        outermost.deserialize(&mut serde_json::Deserializer::from_str(text))?;
        if cuts.is_empty() {
            return Ok(value.to_owned());
        }
        let mut left = String::with_capacity(text.len());
        let mut at = 0;
        for cut in cuts {
            left.push_str(&text[at..cut.start]);
            at = cut.end;
        }
        left.push_str(&text[at..]);
        RawValue::from_string(left)
    }
}

/// One value on the way through the text.
struct FilterWalk<'a, 'c> {
    sieve: &'a MemberFilter<'a>,
    text: &'a str,
    /// The ranges to remove, in the order of the text.
    cuts: &'c mut Vec<Range<usize>>,
    fields: Option<&'static [&'static str]>,
    /// Whether to look at what is inside.
    deeper: bool,
}

/// A member of an object, as it is written.
struct JsonMember<'a> {
    key: &'a RawValue,
    value: &'a RawValue,
    /// Another one before it stays.
    follows: bool,
}

impl<'a> FilterWalk<'a, '_> {
    fn inside(&mut self) -> FilterWalk<'a, '_> {
        FilterWalk {
            sieve: self.sieve,
            text: self.text,
            cuts: self.cuts,
            fields: None,
            deeper: self.deeper,
        }
    }

    /// A `_meta`: whole if all of it passes, with less in it, or not at all. Whether anything is
    /// left.
    fn meta(&mut self, member: &JsonMember<'a>) -> Result<bool, serde_json::Error> {
        let policy = self.sieve.policy;
        let before = self.cuts.len();
        let mut left = 0;
        if member.value.get().starts_with('{') {
            let fields: AllMembers = serde_json::from_str(member.value.get())?;
            for (key, value) in fields.0 {
                let name: Cow<str> = serde_json::from_str(key.get())?;
                if policy.meta(&name, value) {
                    left += 1;
                    continue;
                }
                policy.withhold("meta");
                let follows = left > 0;
                self.cut(&JsonMember {
                    key,
                    value,
                    follows,
                });
            }
        }
        if left == 0 {
            self.cuts.truncate(before);
            self.cut(member);
        }
        Ok(left > 0)
    }

    /// With the comma that it does not need any more.
    fn cut(&mut self, member: &JsonMember<'_>) {
        let place = |part: &str| part.as_ptr() as usize - self.text.as_ptr() as usize;
        let start = place(member.key.get());
        let end = place(member.value.get()) + member.value.get().len();
        let (before, after) = (&self.text[..start], &self.text[end..]);
        let cut = if member.follows {
            before.trim_ascii_end().len() - 1..end
        } else {
            match after.trim_ascii_start().strip_prefix(',') {
                Some(rest) => start..self.text.len() - rest.len(),
                None => start..end,
            }
        };
        self.cuts.push(cut);
    }
}

impl<'de> DeserializeSeed<'de> for FilterWalk<'de, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for FilterWalk<'de, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(self.inside())?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<(), A::Error> {
        let (mut left, mut named) = (false, HashSet::new());
        while let Some(key) = members.next_key::<&RawValue>()? {
            let name: Cow<str> = serde_json::from_str(key.get()).map_err(Error::custom)?;
            if name == META {
                let value = members.next_value()?;
                let follows = left;
                let member = JsonMember {
                    key,
                    value,
                    follows,
                };
                left |= self.meta(&member).map_err(Error::custom)?;
                continue;
            }
            if self.fields.is_some_and(|fields| !fields.contains(&&*name)) {
                self.sieve.policy.withhold("field");
                let value = members.next_value()?;
                let follows = left;
                self.cut(&JsonMember {
                    key,
                    value,
                    follows,
                });
                continue;
            }
            if self.fields.is_some() && !named.insert(name.clone()) {
                // Parsers disagree about which one counts.
                return Err(Error::custom(format_args!("{name:?} is there twice")));
            }
            left = true;
            if self.deeper {
                members.next_value_seed(self.inside())?
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// All members, also of one name.
struct AllMembers<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de> serde::Deserialize<'de> for AllMembers<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = AllMembers<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
                let mut all = Vec::new();
                while let Some(member) = members.next_entry()? {
                    all.push(member);
                }
                Ok(AllMembers(all))
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}
