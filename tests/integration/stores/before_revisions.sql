BEGIN TRANSACTION;
CREATE TABLE usage_attempt (
	request_id TEXT NOT NULL, 
	n SMALLINT NOT NULL, 
	model TEXT NOT NULL, 
	provider TEXT NOT NULL, 
	status SMALLINT NOT NULL, 
	outcome TEXT NOT NULL, 
	sent BOOLEAN NOT NULL, 
	duration_ms BIGINT NOT NULL, 
	PRIMARY KEY (request_id, n), 
	FOREIGN KEY(request_id) REFERENCES usage_event (request_id)
)
 WITHOUT ROWID

;
INSERT INTO "usage_attempt" VALUES('req-000001',1,'big','nebius',429,'busy',1,3);
INSERT INTO "usage_attempt" VALUES('req-000001',2,'llama','deepinfra',200,'ok',1,70);
CREATE TABLE usage_event (
	request_id TEXT NOT NULL, 
	started_unix_ms BIGINT NOT NULL, 
	"key" TEXT NOT NULL, 
	key_id TEXT NOT NULL, 
	org TEXT NOT NULL, 
	project TEXT, 
	model_requested TEXT, 
	tier_requested TEXT, 
	route TEXT NOT NULL, 
	stream BOOLEAN NOT NULL, 
	client_request_id TEXT, 
	rank SMALLINT NOT NULL, 
	outcome TEXT, 
	status SMALLINT, 
	error_code TEXT, 
	model_served TEXT, 
	provider TEXT, 
	tier_served TEXT, 
	input_tokens BIGINT NOT NULL, 
	cached_tokens BIGINT NOT NULL, 
	output_tokens BIGINT NOT NULL, 
	reasoning_tokens BIGINT NOT NULL, 
	cost_nano_usd BIGINT, 
	estimated BOOLEAN NOT NULL, 
	queued_ms BIGINT NOT NULL, 
	ttft_ms BIGINT, 
	duration_ms BIGINT, 
	attempts SMALLINT NOT NULL, 
	PRIMARY KEY (request_id)
)
 WITHOUT ROWID

;
INSERT INTO "usage_event" VALUES('req-000001',1790000001000,'ci','k1','acme',NULL,'llama',NULL,'chat',0,NULL,2,'ok',200,NULL,'llama','deepinfra','default',10,4,20,5,1001,0,1,30,80,2);
INSERT INTO "usage_event" VALUES('req-000002',1790000002000,'ci','k1','acme',NULL,'llama',NULL,'chat',0,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,0,0,0,0,NULL,0,0,NULL,NULL,0);
CREATE INDEX usage_event_started ON usage_event (started_unix_ms);
COMMIT;
PRAGMA user_version = 1;
