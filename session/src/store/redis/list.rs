//! A principal's sessions are spread over all partitions, each with a list of its own. A page takes
//! a few places of each, merges them, and asks for more only where it has used all it got.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};

use futures_util::future::try_join_all;

use super::RedisStore;
use super::reply::{self, ScriptReply};
use super::scripts::{ScriptCall, scripts};
use crate::id::Partition;
use crate::store::{ListPosition, ListRequest, Result, SessionSummary};

/// Taken of each partition beside its share of the page, so that most need not be asked again.
const SPARE: usize = 4;
/// More are not asked for at a time: a script stands in everybody's way.
const MOST: usize = 1000;

/// Unused positions of one partition's list.
struct PartitionPage {
    partition: Partition,
    places: VecDeque<ListPosition>,
    after: Option<ListPosition>,
    /// There is nothing more to ask for.
    complete: bool,
}

impl RedisStore {
    pub(super) async fn list_sessions(&self, listing: &ListRequest) -> Result<Vec<SessionSummary>> {
        let count = self.client.partitions();
        let mut stocks: Vec<PartitionPage> = (0..count)
            .map(|number| PartitionPage {
                partition: Partition(number),
                places: VecDeque::new(),
                after: listing.after.clone(),
                complete: false,
            })
            .collect();
        let mut page = Vec::new();
        let mut portion = (listing.limit / usize::from(count) + SPARE).min(MOST);
        while page.len() < listing.limit {
            let wanted = (listing.limit - page.len()).min(MOST);
            let mut places = Vec::with_capacity(wanted);
            while places.len() < wanted {
                self.stock_up(&mut stocks, listing, portion).await?;
                // Those that have much may have all of it.
                portion = wanted;
                take_first(&mut stocks, wanted, &mut places);
                if stocks.iter().all(PartitionPage::is_over) {
                    break;
                }
            }
            if places.is_empty() {
                break;
            }
            // A session may have been deleted meanwhile: then the next one takes its place.
            page.extend(self.summaries(listing, places).await?);
        }
        Ok(page)
    }

    /// Until each has something to offer, or nothing at all.
    async fn stock_up(
        &self,
        stocks: &mut [PartitionPage],
        listing: &ListRequest,
        portion: usize,
    ) -> Result<()> {
        let empty = stocks
            .iter_mut()
            .filter(|stock| stock.places.is_empty() && !stock.complete);
        // One multiplexed connection to each server: these travel together.
        let refills = empty.map(async |stock| {
            let after = stock.after.as_ref();
            let updated = after.map_or_else(String::new, |place| place.updated.to_string());
            let call = ScriptCall::new(&scripts().listing)
                .key(
                    self.keys
                        .list(stock.partition, &listing.principal, listing.cwd.as_deref()),
                )
                .arg(&updated)
                .arg(after.map_or("", |place| place.session.as_str()))
                .num(portion as u64);
            stock.places = reply::places(self.run(call).await?)?.into();
            stock.complete = stock.places.len() < portion;
            stock.after = stock.places.back().cloned().or(stock.after.take());
            Ok(())
        });
        try_join_all(refills).await.map(drop)
    }

    /// In the order of the places, without those that are not there any more.
    async fn summaries(
        &self,
        listing: &ListRequest,
        places: Vec<ListPosition>,
    ) -> Result<Vec<SessionSummary>> {
        let mut partitions: HashMap<Partition, Vec<ListPosition>> = HashMap::new();
        for place in places {
            let of = partitions.entry(place.session.partition()).or_default();
            of.push(place);
        }
        let asked = partitions.into_values().map(async |places| {
            let mut call = ScriptCall::new(&scripts().summaries)
                .arg(&listing.principal)
                .arg(listing.cwd.as_deref().unwrap_or_default());
            for place in &places {
                let id = &place.session;
                call = call.key(self.keys.session(id)).arg(id.as_str());
            }
            let mut items = self.run(call).await?.items()?;
            let mut found = Vec::with_capacity(places.len());
            for place in &places {
                let mut fields = ScriptReply(items.next()?).items()?;
                if !fields.is_empty() {
                    found.push(SessionSummary {
                        place: place.clone(),
                        cwd: fields.text()?,
                        title: fields.text()?,
                        directories: fields.bytes()?,
                        usage: fields.bytes()?,
                    });
                }
            }
            Ok(found)
        });
        let mut found: Vec<SessionSummary> =
            try_join_all(asked).await?.into_iter().flatten().collect();
        found.sort_by(|one, other| other.place.cmp(&one.place));
        Ok(found)
    }
}

impl PartitionPage {
    fn is_over(&self) -> bool {
        self.places.is_empty() && self.complete
    }
}

/// Merges until there are as many as wanted, or a stock has run out and may have more.
fn take_first(stocks: &mut [PartitionPage], wanted: usize, places: &mut Vec<ListPosition>) {
    while places.len() < wanted
        && stocks
            .iter()
            .all(|stock| !stock.places.is_empty() || stock.complete)
    {
        let first = stocks
            .iter_mut()
            .min_by_key(|stock| Reverse(stock.places.front().cloned()));
        match first.and_then(|stock| stock.places.pop_front()) {
            Some(place) => places.push(place),
            None => return,
        }
    }
}
