//! Reports of processes on Redis, in a slot of their own.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::RedisStore;
use super::scripts::{ScriptCall, scripts};
use crate::id::SessionId;
use crate::store::report_store::MOST_REPORTS;
use crate::store::{ReportStore, Result, StoreMemory, WorkerId};

#[async_trait]
impl ReportStore for RedisStore {
    async fn report(
        &self,
        process: &str,
        report: &Bytes,
        lasts: Duration,
    ) -> Result<Option<String>> {
        let call = ScriptCall::new(&scripts().report)
            .key(self.keys.reports())
            .arg(process)
            .arg(report)
            .num(lasts.as_millis() as u64)
            .num(MOST_REPORTS as u64);
        // It is said again soon.
        self.client.run_briefly(call).await?.optional_text()
    }

    async fn reports(&self) -> Result<Vec<(String, Bytes)>> {
        let call = ScriptCall::new(&scripts().reports).key(self.keys.reports());
        let mut items = self.run(call).await?.items()?;
        let mut found = Vec::new();
        while let Some(process) = items.next_text()? {
            found.push((process, items.bytes()?));
        }
        Ok(found)
    }

    async fn order(&self, process: &str, order: &str, lasts: Duration) -> Result<bool> {
        let call = ScriptCall::new(&scripts().order)
            .key(self.keys.reports())
            .key(self.keys.orders())
            .arg(process)
            .arg(order)
            .num(lasts.as_millis() as u64);
        Ok(self.run(call).await?.optional_number()? == 1)
    }

    async fn worker_of(&self, session: &SessionId, principal: &str) -> Result<Option<WorkerId>> {
        let call = ScriptCall::new(&scripts().worker_of)
            .key(self.keys.session(session))
            .arg(principal);
        let worker = self.run(call).await?.optional_text()?;
        let worker = worker.filter(|worker| !worker.is_empty());
        Ok(worker.map(|worker| WorkerId(worker.into())))
    }

    async fn memory(&self) -> Result<Vec<StoreMemory>> {
        self.client.memory().await
    }
}
