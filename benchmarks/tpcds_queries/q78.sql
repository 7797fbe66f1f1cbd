-- How much more of an item does a customer buy in stores than elsewhere, without returned items?
WITH in_store AS (
  SELECT
    ss_item_sk AS item_sk,
    ss_customer_sk AS customer_sk,
    sum(ss_quantity) AS quantity,
    sum(ss_wholesale_cost) AS cost,
    sum(ss_sales_price) AS price
  FROM store_sales
  JOIN date_dim ON d_date_sk = ss_sold_date_sk AND d_year = 2000
  LEFT ANTI JOIN store_returns
    ON sr_ticket_number = ss_ticket_number AND sr_item_sk = ss_item_sk
  GROUP BY ss_item_sk, ss_customer_sk
),
on_web AS (
  SELECT
    ws_item_sk AS item_sk,
    ws_bill_customer_sk AS customer_sk,
    sum(ws_quantity) AS quantity,
    sum(ws_wholesale_cost) AS cost,
    sum(ws_sales_price) AS price
  FROM web_sales
  JOIN date_dim ON d_date_sk = ws_sold_date_sk AND d_year = 2000
  LEFT ANTI JOIN web_returns ON wr_order_number = ws_order_number AND wr_item_sk = ws_item_sk
  GROUP BY ws_item_sk, ws_bill_customer_sk
),
by_catalog AS (
  SELECT
    cs_item_sk AS item_sk,
    cs_bill_customer_sk AS customer_sk,
    sum(cs_quantity) AS quantity,
    sum(cs_wholesale_cost) AS cost,
    sum(cs_sales_price) AS price
  FROM catalog_sales
  JOIN date_dim ON d_date_sk = cs_sold_date_sk AND d_year = 2000
  LEFT ANTI JOIN catalog_returns ON cr_order_number = cs_order_number AND cr_item_sk = cs_item_sk
  GROUP BY cs_item_sk, cs_bill_customer_sk
)
SELECT
  item_sk,
  customer_sk,
  round(
    in_store.quantity
      / nullif(coalesce(on_web.quantity, 0) + coalesce(by_catalog.quantity, 0), 0),
    2
  ) AS ratio,
  in_store.quantity AS store_quantity,
  in_store.cost AS store_cost,
  in_store.price AS store_price,
  coalesce(on_web.quantity, 0) + coalesce(by_catalog.quantity, 0) AS other_quantity,
  coalesce(on_web.cost, 0) + coalesce(by_catalog.cost, 0) AS other_cost,
  coalesce(on_web.price, 0) + coalesce(by_catalog.price, 0) AS other_price
FROM in_store
LEFT JOIN on_web USING (item_sk, customer_sk)
LEFT JOIN by_catalog USING (item_sk, customer_sk)
WHERE coalesce(on_web.quantity, 0) > 0 OR coalesce(by_catalog.quantity, 0) > 0
ORDER BY store_quantity DESC, store_cost DESC, store_price DESC, item_sk, customer_sk
LIMIT 100
