//! ACP over one WebSocket: every message of the connection as a text frame.

use std::net::SocketAddr;

use anyhow::Result;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

use super::inbox::Inbox;
use super::ledger::Ledger;
use super::rpc;
use crate::count::Count;

pub struct Link {
    sink: SplitSink<WebSocketStream<TcpStream>, Message>,
}

impl Link {
    pub async fn open(
        addr: SocketAddr,
        count: Count,
        inbox: &Inbox,
        readers: &mut JoinSet<()>,
    ) -> Result<(Self, String)> {
        let io = TcpStream::connect(addr).await?;
        io.set_nodelay(true)?;
        let (socket, _) = client_async(format!("ws://{addr}/acp"), io).await?;
        let (sink, source) = socket.split();
        readers.spawn_local(read(source, inbox.clone()));

        let mut link = Self { sink };
        link.send(rpc::initialize()).await?;
        rpc::result(&inbox.answer(rpc::INITIALIZE).await?)?;
        link.send(rpc::new_session()).await?;
        let answer = inbox.answer(rpc::NEW_SESSION).await?;
        let session = rpc::session_id(&answer)?;
        inbox.open(Ledger::new(session.clone(), count));
        Ok((link, session))
    }

    pub async fn send(&mut self, message: String) -> Result<()> {
        Ok(self.sink.send(Message::text(message)).await?)
    }

    pub async fn close(mut self) {
        let _ = self.sink.close().await;
    }
}

async fn read(mut source: SplitStream<WebSocketStream<TcpStream>>, inbox: Inbox) {
    while let Some(frame) = source.next().await {
        match frame {
            Ok(Message::Text(text)) => inbox.receive(text.as_bytes()),
            Ok(Message::Close(_)) => break,
            Ok(_) => {}
            Err(error) => return inbox.fail(error),
        }
    }
    inbox.fail("the server closed the socket");
}
