// An identity provider for people, as it comes from npm. Prints its address.
import http from 'node:http';
import Provider from 'oidc-provider';

const redirects = process.argv.slice(2);
// Of another host than the gateway's, so that cookies are told apart as in earnest.
const server = http.createServer();
await new Promise((done) => server.listen(0, '127.0.0.1', done));
const issuer = `http://localhost:${server.address().port}`;
const client = (id) => ({
  client_id: id, redirect_uris: redirects, response_types: ['code'], grant_types: ['authorization_code'],
  application_type: 'native', token_endpoint_auth_method: 'none',
});
const provider = new Provider(issuer, {
  clients: [client('console'), client('somebody-else')],
  pkce: { required: () => true },
  claims: { openid: ['sub'] },
  features: {
    devInteractions: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => 'https://baton.example/',
      useGrantedResource: () => true,
      // Who may do nothing gets a token for somebody else.
      getResourceServerInfo: () => ({
        scope: '', audience: 'baton', accessTokenTTL: 600, accessTokenFormat: 'jwt', jwt: { sign: { alg: 'RS256' } },
      }),
    },
  },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
});
server.on('request', provider.callback());
console.log(`provider ${issuer}`);
