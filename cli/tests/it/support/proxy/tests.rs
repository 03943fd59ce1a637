use super::*;

async fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let port = listener.local_addr().expect("bound").port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = stream.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
            });
        }
    });
    port
}

#[tokio::test]
async fn each_mood_does_what_it_says() {
    let proxy = Proxy::start(echo().await).await;
    let mut stream = TcpStream::connect(("127.0.0.1", proxy.port)).await.unwrap();
    let mut back = [0; 500];
    for mood in [
        Mood::Clear,
        Mood::Sliced,
        Mood::Slow(Duration::from_millis(5)),
    ] {
        proxy.set(mood);
        stream.write_all(&[7; 500]).await.unwrap();
        stream.read_exact(&mut back).await.unwrap();
        assert_eq!(back, [7; 500], "{mood:?}");
    }
    proxy.set(Mood::Stalled);
    stream.write_all(&[8; 500]).await.unwrap();
    let quiet = Duration::from_millis(100);
    assert!(
        tokio::time::timeout(quiet, stream.read_exact(&mut back))
            .await
            .is_err()
    );
    proxy.set(Mood::Clear);
    stream.read_exact(&mut back).await.unwrap();
    assert_eq!(back, [8; 500], "what was stalled arrives");
    proxy.set(Mood::CutsReplies);
    stream.write_all(&[9; 500]).await.unwrap();
    assert!(stream.read_exact(&mut back).await.is_err());
    let mut stream = TcpStream::connect(("127.0.0.1", proxy.port)).await.unwrap();
    proxy.set(Mood::Clear);
    stream.write_all(&[1]).await.unwrap();
    stream.read_exact(&mut back[..1]).await.unwrap();
    proxy.cut();
    assert!(stream.read_exact(&mut back).await.is_err());
}
