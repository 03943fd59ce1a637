//! The scripts, and how a call of one is put together.

use std::sync::OnceLock;

use redis::Cmd;
use sha1_smol::Sha1;

use crate::store::SessionSetup;

/// The error of a command that is made to fail.
#[cfg(feature = "conformance")]
pub(super) const INJECTED: &str = "this command was made to fail";

pub(super) struct LuaScript {
    pub name: &'static str,
    pub body: String,
    pub hash: String,
}

impl LuaScript {
    fn new(name: &'static str, body: &str) -> Self {
        let body = body
            // One that includes others comes before them.
            .replace("--@include append", include_str!("../../../lua/append.lua"))
            .replace("--@include hide", include_str!("../../../lua/hide.lua"))
            .replace("--@include forget", include_str!("../../../lua/forget.lua"))
            .replace(
                "--@include hand_over",
                include_str!("../../../lua/hand_over.lua"),
            )
            .replace("--@include known", include_str!("../../../lua/known.lua"))
            .replace(
                "--@include lineage",
                include_str!("../../../lua/lineage.lua"),
            )
            .replace("--@include lists", include_str!("../../../lua/lists.lua"))
            .replace("--@include page", include_str!("../../../lua/page.lua"))
            .replace("--@include peek", include_str!("../../../lua/peek.lua"))
            .replace("--@include stored", include_str!("../../../lua/stored.lua"))
            .replace("--@include switch", include_str!("../../../lua/switch.lua"))
            .replace("--@include trim", include_str!("../../../lua/trim.lua"))
            .replace("--@include view", include_str!("../../../lua/view.lua"))
            .replace("--@include thaw", include_str!("../../../lua/thaw.lua"))
            .replace("--@include freeze", include_str!("../../../lua/freeze.lua"));
        let hash = Sha1::from(&body).digest().to_string();
        Self { name, body, hash }
    }

    #[cfg(feature = "conformance")]
    fn failing(&self, at: usize) -> String {
        let (flags, body) = match self.body.split_once('\n') {
            Some((flags, body)) if flags.starts_with("#!") => (flags, body),
            _ => ("", self.body.as_str()),
        };
        let fails = format!(
            "local server, left = redis, {at}\n\
             local redis = setmetatable({{}}, {{ __index = server }})\n\
             local function counted(call)\n\
               return function(name, ...)\n\
                 if name ~= 'SPUBLISH' then left = left - 1 end\n\
                 if left == 0 then error({{ err = 'ERR {INJECTED}' }}) end\n\
                 return call(name, ...)\n\
               end\n\
             end\n\
             redis.call, redis.pcall = counted(server.call), counted(server.pcall)\n"
        );
        format!("{flags}\n{fails}{body}")
    }
}

macro_rules! scripts {
    ($($name:ident),* $(,)?) => {
        pub(super) struct Scripts { $(pub $name: LuaScript),* }

        pub(super) fn scripts() -> &'static Scripts {
            static SCRIPTS: OnceLock<Scripts> = OnceLock::new();
            SCRIPTS.get_or_init(|| Scripts {
                $($name: LuaScript::new(
                    stringify!($name),
                    include_str!(concat!("../../../lua/", stringify!($name), ".lua")),
                )),*
            })
        }

        /// The names of all scripts, and the hashes that servers know them by.
        #[cfg(feature = "conformance")]
        pub fn script_hashes() -> Vec<(&'static str, String)> {
            let all = scripts();
            vec![$((all.$name.name, all.$name.hash.clone())),*]
        }
    };
}

scripts!(
    create,
    enqueue,
    note_request,
    request_waits,
    attach,
    attachment,
    unwatch,
    forget_watch,
    open_session_stream,
    touch_session_stream,
    open_connection_stream,
    touch_connection_stream,
    post,
    inbox,
    commands,
    due,
    waiting,
    claim,
    confirm_claim,
    renew,
    append,
    append_end,
    confirm_events,
    unconfirmed,
    release,
    register,
    agents,
    mention,
    retire,
    read,
    entries,
    tidy,
    compact,
    expire,
    purge,
    fork,
    listing,
    summaries,
    usage,
    delete,
    record,
    adopt,
    publish,
    revoke,
    revocations,
    spend,
    report,
    reports,
    order,
    worker_of,
    format,
    restored,
);

/// One call of a script.
pub(super) struct ScriptCall<'a> {
    script: &'static LuaScript,
    keys: Vec<String>,
    arguments: Vec<ScriptArgument<'a>>,
}

enum ScriptArgument<'a> {
    Bytes(&'a [u8]),
    Number(u64),
}

/// As text it is no longer.
const NUMBER: usize = 20;

impl ScriptArgument<'_> {
    fn size(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Number(_) => NUMBER,
        }
    }
}

impl<'a> ScriptCall<'a> {
    pub fn new(script: &'static LuaScript) -> Self {
        Self {
            script,
            keys: Vec::with_capacity(4),
            arguments: Vec::with_capacity(20),
        }
    }

    pub fn key(mut self, key: String) -> Self {
        self.keys.push(key);
        self
    }

    pub fn arg(mut self, value: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        self.arguments.push(ScriptArgument::Bytes(value.as_ref()));
        self
    }

    pub fn num(mut self, value: u64) -> Self {
        self.arguments.push(ScriptArgument::Number(value));
        self
    }

    /// Each of its values as two arguments: whether it is given, and what it is.
    pub fn setup(self, setup: &'a SessionSetup) -> Self {
        let values = [&setup.mcp_servers, &setup.directories];
        values.into_iter().fold(self, |call, value| {
            let given = call.num(value.is_some().into());
            given.arg(value.as_deref().unwrap_or_default())
        })
    }

    pub fn script(&self) -> &'static LuaScript {
        self.script
    }

    /// All are in the same slot.
    pub fn first_key(&self) -> &str {
        self.keys.first().map_or("", String::as_str)
    }

    /// The common prefix of its keys: the namespace and the partition that they share.
    pub fn prefix(&self) -> &str {
        let key = self.first_key();
        key.find("}:").map_or("", |at| &key[..at + 2])
    }

    /// By hash: what is sent at first.
    pub fn by_hash(&self) -> Cmd {
        self.command("EVALSHA", &self.script.hash)
    }

    /// With its text: when the server doesn't know the script, which it then keeps.
    pub fn by_text(&self) -> Cmd {
        self.command("EVAL", &self.script.body)
    }

    /// The same, but its `at`-th command fails, counted from 1. Signals do not count: they may be
    /// lost anyway.
    #[cfg(feature = "conformance")]
    pub fn failing(&self, at: usize) -> Cmd {
        self.command("EVAL", &self.script.failing(at))
    }

    fn command(&self, name: &str, script: &str) -> Cmd {
        let values = self.arguments.iter().map(ScriptArgument::size);
        let keys = self.keys.iter().map(String::len);
        let size = name.len() + script.len() + NUMBER + keys.chain(values).sum::<usize>();
        let mut command = Cmd::with_capacity(3 + self.keys.len() + self.arguments.len(), size);
        command.arg(name).arg(script).arg(self.keys.len());
        for key in &self.keys {
            command.arg(key);
        }
        for argument in &self.arguments {
            match argument {
                ScriptArgument::Bytes(bytes) => command.arg(*bytes),
                ScriptArgument::Number(number) => command.arg(*number),
            };
        }
        command
    }
}
