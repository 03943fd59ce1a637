//! The file of `--llm-config`: several endpoints and models, and more than options can say.

use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_worker::agent::llm::config::ModelConfig;
use baton_worker::agent::llm::model::ModelProtocol;
use baton_worker::agent::llm::provider::{ChatDialect, ModelKey, ModelProvider, ProviderConfig};
use baton_worker::agent::llm::spending::{TokenPrices, UsageLimit, UsageLimits};
use baton_worker::agent::llm::tool::ToolEffect;
use baton_worker::agent::llm::tool_rules::{ModeRule, ToolPattern, ToolRule, ToolRules};
use baton_worker::http_client::ProxyRule;
use toml::de::DeTable;

use super::table::{TomlFaults, TomlTable};

/// The values of the file; options give those that it leaves out.
#[derive(Debug, Default)]
pub struct LlmFile {
    pub endpoints: Vec<ProviderConfig>,
    pub models: Vec<ModelConfig>,
    pub system_prompt: Option<String>,
    pub steps: Option<usize>,
    /// In KiB.
    pub tool_output: Option<usize>,
    pub parallel_tools: Option<bool>,
    pub limits: UsageLimits,
    pub rules: ToolRules,
    /// Files with keys, which agents and tools must not read.
    pub kept: Vec<PathBuf>,
}

/// Shorter than what any model has to be told.
pub const LEAST_CONTEXT: u64 = 1024;

struct FileReader<'t, 'k> {
    faults: TomlFaults<'t>,
    /// The key of BATON_LLM_KEY.
    key: Option<&'k ModelKey>,
    context: u64,
    names: Vec<String>,
    file: LlmFile,
}

impl LlmFile {
    /// `key`: of the environment. `context`: of a model of which the file says nothing else.
    pub fn read(path: &Path, key: Option<&ModelKey>, context: u64) -> Result<Self, Vec<String>> {
        let shown = format!("--llm-config {}", path.display());
        let text = std::fs::read_to_string(path).map_err(|it| vec![format!("{shown}: {it}")])?;
        Self::parse(shown, &text, key, context)
    }

    fn parse(
        shown: String,
        text: &str,
        key: Option<&ModelKey>,
        context: u64,
    ) -> Result<Self, Vec<String>> {
        let mut faults = TomlFaults::new(shown, text);
        let (document, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            let at = error.span().map_or(0, |span| span.start);
            faults.add(at, error.message());
        }
        if !errors.is_empty() {
            return Err(faults.finish());
        }
        let mut reader = FileReader {
            faults,
            key,
            context,
            names: Vec::new(),
            file: Self::default(),
        };
        reader.document(TomlTable::new("", document.get_ref(), 0));
        let faults = reader.faults.finish();
        if faults.is_empty() {
            Ok(reader.file)
        } else {
            Err(faults)
        }
    }
}

impl FileReader<'_, '_> {
    fn document(&mut self, mut top: TomlTable<'_, '_>) {
        let faults = &mut self.faults;
        self.file.steps = top.count(faults, "steps").map(|it| it as usize);
        self.file.tool_output = top.count(faults, "tool-output").map(|it| it as usize);
        self.file.parallel_tools = top.boolean(faults, "parallel-tools");
        self.file.limits.currency = top.text(faults, "currency").unwrap_or("USD".into());
        self.file.system_prompt = top.text(faults, "system-prompt");
        if let Some(path) = top.path(faults, "system-prompt-file") {
            match std::fs::read_to_string(&path) {
                Ok(_) if self.file.system_prompt.is_some() => {
                    let text = "system-prompt and system-prompt-file: give one of them";
                    faults.add(top.at, text);
                }
                Ok(text) => self.file.system_prompt = Some(text),
                Err(error) => faults.add(
                    top.at,
                    format!("system-prompt-file {}: {error}", path.display()),
                ),
            }
        }
        for (name, table) in top.tables(&mut self.faults, "endpoints") {
            self.endpoint(name, table);
        }
        if self.names.is_empty() {
            let text = "no endpoint: write [endpoints.NAME] with a url";
            self.faults.add(0, text);
        }
        for table in top.list(&mut self.faults, "models") {
            self.model(table);
        }
        if self.file.models.is_empty() {
            self.faults.add(0, "no model: write [[models]] with a name");
        }
        if let Some(mut limits) = top.table(&mut self.faults, "limits") {
            self.file.limits.turn = self.limit(&mut limits, "turn");
            self.file.limits.session = self.limit(&mut limits, "session");
            limits.finish(&mut self.faults);
        }
        for (name, table) in top.tables(&mut self.faults, "tools") {
            self.tool(name, table);
        }
        if let Some(mut modes) = top.table(&mut self.faults, "modes") {
            self.file.rules.ask = self.mode(&mut modes, "ask");
            self.file.rules.code = self.mode(&mut modes, "code");
            self.file.rules.architect = self.mode(&mut modes, "architect");
            modes.finish(&mut self.faults);
        }
        top.finish(&mut self.faults);
    }

    fn endpoint(&mut self, name: String, mut table: TomlTable<'_, '_>) {
        let protocol = match self.one_of(&mut table, "protocol", &PROTOCOLS) {
            Some(protocol) => protocol,
            None => ModelProtocol::Chat,
        };
        let faults = &mut self.faults;
        let url = table.text(faults, "url");
        if url.is_none() {
            faults.add(table.at, format!("[endpoints.{name}]: url is missing"));
        }
        let mut provider = ProviderConfig::new(protocol, url.unwrap_or_default());
        if let Some(dialect) = table.text(faults, "dialect") {
            match dialect.parse::<ChatDialect>() {
                Ok(dialect) => provider.dialect = dialect,
                Err(fault) => {
                    faults.add(table.at, format!("[endpoints.{name}] dialect: {fault}"));
                }
            }
        }
        provider.key = self.key(&name, &mut table);
        let faults = &mut self.faults;
        if let Some(headers) = table.table(faults, "headers") {
            let pairs = headers.pairs(faults).into_iter();
            provider.headers = pairs.map(|(name, it)| (name, ModelKey::new(it))).collect();
        }
        provider.proxy = match table.text(faults, "proxy").as_deref() {
            None => ProxyRule::Environment,
            Some("none") => ProxyRule::Never,
            Some(url) => ProxyRule::Always(url.to_owned()),
        };
        if let Some(path) = table.path(faults, "ca-file") {
            match std::fs::read(&path) {
                Ok(pem) => provider.ca = Some(pem),
                Err(error) => {
                    let text = format!("[endpoints.{name}] ca-file {}: {error}", path.display());
                    faults.add(table.at, text);
                }
            }
        }
        let mut seconds = |key| table.number(faults, key).map(duration);
        if let Some(limit) = seconds("connect-timeout") {
            provider.connect_timeout = limit;
        }
        if let Some(limit) = seconds("first-byte-timeout") {
            provider.first_byte_timeout = limit;
        }
        if let Some(limit) = seconds("silence-timeout") {
            provider.silence_timeout = limit;
        }
        if let Some(retries) = table.number(faults, "retries") {
            provider.retry.retries = retries as u32;
        }
        let at = table.at;
        table.finish(faults);
        if !provider.url.is_empty()
            && let Err(fault) = ModelProvider::new(provider.clone())
        {
            self.faults.add(at, format!("[endpoints.{name}]: {fault}"));
        }
        self.names.push(name);
        self.file.endpoints.push(provider);
    }

    fn key(&mut self, name: &str, table: &mut TomlTable<'_, '_>) -> Option<ModelKey> {
        let faults = &mut self.faults;
        let from_environment = table.boolean(faults, "key-from-environment");
        let path = table.path(faults, "key-file");
        match (path, from_environment.unwrap_or(false)) {
            (Some(path), false) => match std::fs::read_to_string(&path) {
                Ok(text) if !text.trim().is_empty() => {
                    self.file.kept.push(path);
                    Some(ModelKey::new(text.trim()))
                }
                Ok(_) => {
                    let text = format!(
                        "[endpoints.{name}] key-file {}: it is empty",
                        path.display()
                    );
                    faults.add(table.at, text);
                    None
                }
                Err(error) => {
                    let text = format!("[endpoints.{name}] key-file {}: {error}", path.display());
                    faults.add(table.at, text);
                    None
                }
            },
            (Some(_), true) => {
                let text = format!(
                    "[endpoints.{name}] key-file and key-from-environment: give one of them"
                );
                faults.add(table.at, text);
                None
            }
            (None, true) => {
                if self.key.is_none() {
                    let text = format!("[endpoints.{name}]: BATON_LLM_KEY is not set");
                    faults.add(table.at, text);
                }
                self.key.cloned()
            }
            (None, false) => None,
        }
    }

    fn model(&mut self, mut table: TomlTable<'_, '_>) {
        let faults = &mut self.faults;
        let name = table
            .text(faults, "name")
            .filter(|it| !it.trim().is_empty());
        let Some(name) = name else {
            faults.add(table.at, "[[models]]: name is missing");
            return;
        };
        let id = table.text(faults, "id").unwrap_or_else(|| name.clone());
        let title = table.text(faults, "title").unwrap_or_else(|| id.clone());
        let endpoint = match table.text(faults, "endpoint") {
            Some(wanted) => self.names.iter().position(|it| *it == wanted).or_else(|| {
                let known = self.names.join(", ");
                let text = format!("[[models]] {id}: no endpoint {wanted:?}; there are {known}");
                faults.add(table.at, text);
                None
            }),
            None if self.names.len() > 1 => {
                let text = format!("[[models]] {id}: say at which endpoint it is");
                faults.add(table.at, text);
                None
            }
            None => Some(0),
        };
        let context = table.count(faults, "context").unwrap_or(self.context);
        if context < LEAST_CONTEXT {
            let text = format!("[[models]] {id}: context must be {LEAST_CONTEXT} at least");
            faults.add(table.at, text);
        }
        let max_output = table.count(faults, "max-output");
        let prices = prices(table.table(faults, "prices"), faults);
        if self.file.models.iter().any(|it| it.id == id) {
            let text = format!("[[models]] {id}: another one has this id: give each its own");
            faults.add(table.at, text);
        }
        table.finish(faults);
        self.file.models.push(ModelConfig {
            id,
            title,
            name,
            endpoint: endpoint.unwrap_or(0),
            context,
            max_output: max_output.map(|it| u32::try_from(it).unwrap_or(u32::MAX)),
            prices,
        });
    }

    fn limit(&mut self, limits: &mut TomlTable<'_, '_>, key: &'static str) -> UsageLimit {
        let Some(mut table) = limits.table(&mut self.faults, key) else {
            return UsageLimit::default();
        };
        let faults = &mut self.faults;
        let limit = UsageLimit {
            tokens: table.count(faults, "tokens"),
            cost: table.number(faults, "cost").map(|it| (it * 1e6) as u64),
            time: table.number(faults, "seconds").map(duration),
        };
        if limit.cost.is_some() && self.file.models.iter().all(|it| it.prices.is_none()) {
            faults.add(table.at, "a limit on cost needs [models.prices]");
        }
        table.finish(faults);
        limit
    }

    fn tool(&mut self, name: String, mut table: TomlTable<'_, '_>) {
        let rule = ToolRule {
            effect: self.one_of(&mut table, "effect", &EFFECTS),
            idempotent: table.boolean(&mut self.faults, "idempotent"),
            offered: table.boolean(&mut self.faults, "offered"),
            tools: ToolPattern(name),
        };
        table.finish(&mut self.faults);
        self.file.rules.tools.push(rule);
    }

    fn mode(&mut self, modes: &mut TomlTable<'_, '_>, key: &'static str) -> ModeRule {
        let faults = &mut self.faults;
        let Some(mut table) = modes.table(faults, key) else {
            return ModeRule::default();
        };
        let mut patterns = |key| -> Vec<ToolPattern> {
            let all = table.texts(faults, key).into_iter();
            all.map(ToolPattern).collect()
        };
        let rule = ModeRule {
            ask: patterns("ask"),
            allow: patterns("allow"),
            hide: patterns("hide"),
        };
        table.finish(faults);
        rule
    }

    fn one_of<T: Copy>(
        &mut self,
        table: &mut TomlTable<'_, '_>,
        key: &'static str,
        all: &[(&str, T)],
    ) -> Option<T> {
        let given = table.text(&mut self.faults, key)?;
        let found = all.iter().find(|(name, _)| *name == given);
        if found.is_none() {
            let names: Vec<_> = all.iter().map(|(name, _)| *name).collect();
            let text = format!("{key} {given:?}: must be one of {}", names.join(", "));
            self.faults.add(table.at, text);
        }
        found.map(|(_, value)| *value)
    }
}

const PROTOCOLS: [(&str, ModelProtocol); 3] = [
    ("chat", ModelProtocol::Chat),
    ("responses", ModelProtocol::Responses),
    ("anthropic", ModelProtocol::Anthropic),
];
const EFFECTS: [(&str, ToolEffect); 3] = [
    ("reads", ToolEffect::Reads),
    ("edits", ToolEffect::Edits),
    ("unknown", ToolEffect::Unknown),
];

/// A limit beyond all measure is none.
fn duration(seconds: f64) -> Duration {
    const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
    let given = Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST);
    given.min(LONGEST)
}

fn prices(table: Option<TomlTable<'_, '_>>, faults: &mut TomlFaults<'_>) -> Option<TokenPrices> {
    let mut table = table?;
    let input = table.number(faults, "input").unwrap_or_default();
    let prices = TokenPrices {
        input,
        cached_input: table.number(faults, "cached-input").unwrap_or(input),
        cache_written: table.number(faults, "cache-written").unwrap_or(input),
        output: table.number(faults, "output").unwrap_or_default(),
    };
    table.finish(faults);
    Some(prices)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<LlmFile, Vec<String>> {
        let key = ModelKey::new("hush");
        LlmFile::parse("f".into(), text, Some(&key), 128_000)
    }

    const GOOD: &str = r#"
steps = 50
tool-output = 32
parallel-tools = false
currency = "EUR"
system-prompt = "Be kind."

[endpoints.near]
url = "http://127.0.0.1:11434/v1"
headers = { X-Team = "a" }
proxy = "none"
first-byte-timeout = 600
retries = 1

[endpoints.far]
url = "https://api.anthropic.com"
protocol = "anthropic"
key-from-environment = true

[[models]]
name = "qwen3"
endpoint = "near"
context = 32_000

[[models]]
name = "claude-sonnet-4-5"
id = "sonnet"
title = "Sonnet"
endpoint = "far"
max-output = 8_000
prices = { input = 3, cached-input = 0.3, output = 15.0 }

[limits.turn]
tokens = 1_000_000
cost = 0.5
seconds = 90

[limits.session]
cost = 20

[tools."files__*"]
effect = "reads"
idempotent = true

[modes.code]
allow = ["run_command"]
hide = ["*__delete*"]
"#;

    #[test]
    fn a_file_says_all_that_there_is() {
        let file = read(GOOD).expect("a good file");
        assert_eq!((file.steps, file.tool_output), (Some(50), Some(32)));
        assert_eq!(file.parallel_tools, Some(false));
        let far = &file.endpoints[file.models[1].endpoint];
        assert_eq!(far.protocol, ModelProtocol::Anthropic);
        assert_eq!(far.key, Some(ModelKey::new("hush")));
        let near = &file.endpoints[file.models[0].endpoint];
        assert_eq!((near.key.as_ref(), near.retry.retries), (None, 1));
        assert_eq!(near.proxy, ProxyRule::Never);
        let models: Vec<_> = file.models.iter().map(|it| it.id.as_str()).collect();
        assert_eq!(models, ["qwen3", "sonnet"]);
        assert_eq!(
            (file.models[0].context, file.models[1].context),
            (32_000, 128_000)
        );
        let prices = file.models[1].prices.expect("prices");
        assert_eq!((prices.cached_input, prices.cache_written), (0.3, 3.0));
        assert_eq!(file.limits.turn.cost, Some(500_000));
        assert_eq!(file.limits.session.tokens, None);
        assert_eq!(file.rules.tools[0].effect, Some(ToolEffect::Reads));
        assert_eq!(file.rules.code.hide, [ToolPattern("*__delete*".into())]);
    }

    #[test]
    fn every_fault_is_named_with_its_line_and_what_was_meant() {
        let text = r#"
stepps = 50
tool-output = "much"
[endpoints.near]
url = "ftp://x"
hedders = {}
[endpoints.far]
protocol = "smoke"
key-file = "/no/such"
[[models]]
name = "a"
[[models]]
name = "b"
endpoint = "nowhere"
context = 3
[limits.turn]
cost = -1
[modes.kode]
allow = []
"#;
        let faults = read(text).expect_err("a bad file").join("\n");
        for part in [
            "f:2: stepps: unknown key; did you mean steps?",
            "f:3: tool-output: expected a number",
            "f:4: [endpoints.near]: the URL of the model endpoint must begin with http",
            "f:6: [endpoints.near] hedders: unknown key; did you mean headers?",
            "protocol \"smoke\": must be one of chat, responses, anthropic",
            "key-file /no/such",
            "[endpoints.far]: url is missing",
            "[[models]] a: say at which endpoint it is",
            "no endpoint \"nowhere\"; there are near, far",
            "context must be 1024",
            "[limits.turn] cost: expected a number of 0 or more",
            "[modes] kode: unknown key; did you mean code?",
        ] {
            assert!(faults.contains(part), "{part}:\n{faults}");
        }
    }

    #[test]
    fn a_file_without_models_or_that_is_none_says_so() {
        let faults = read("").expect_err("nothing").join("\n");
        assert!(
            faults.contains("no endpoint") && faults.contains("no model"),
            "{faults}"
        );
        let faults = read("[endpoints\nx = 1").expect_err("no TOML").join("\n");
        assert!(faults.contains("f:1:"), "{faults}");
        let limit = "[endpoints.a]\nurl = \"http://a\"\n[[models]]\nname = \"m\"\n\
                     [limits.turn]\ncost = 1\n";
        let faults = read(limit).expect_err("no prices").join("\n");
        assert!(faults.contains("needs [models.prices]"), "{faults}");
    }
}
